"""What a run shows: whole lines in a log, one rewritten line on a terminal (without torch)."""

import io

from trainer.metrics import StepMetrics
from trainer.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def metrics(step, loss=2.5):
    norm = None if loss is None else 0.5
    return StepMetrics(
        step, loss, norm, 1e-3, tokens=12_300, seconds=1.0, rows=3, skipped=loss is None
    )


def test_log_has_a_line_per_step():
    """Where nobody watches, every step is a line of its own."""
    stream = io.StringIO()
    progress = Progress(10, stream=stream)
    progress.step(metrics(3))
    progress.step(metrics(4, loss=None))

    assert stream.getvalue() == (
        "step  3 of 10  loss 2.5000  gradient 0.500  lr 1.00e-03  12.3k tokens/s\n"
        "step  4 of 10  skipped: no finite loss and gradient  12.3k tokens/s\n"
    )


def test_terminal_line_is_rewritten():
    """On a terminal steps replace one another; what is skipped or said stays."""
    stream = Terminal()
    progress = Progress(10, stream=stream)
    progress.step(metrics(3))
    progress.step(metrics(4))
    progress.say("done")
    first, rest = stream.getvalue().split("\r")[1:]

    assert first.startswith("step  3")
    assert rest.splitlines()[0].startswith("step  4")
    assert rest.splitlines()[1] == "done"


def test_other_ranks_are_silent():
    """Only the first rank speaks."""
    stream = io.StringIO()
    progress = Progress(10, silent=True, stream=stream)
    progress.say("done")
    progress.step(metrics(3))

    assert stream.getvalue() == ""
