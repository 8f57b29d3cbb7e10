"""Progress and the final table, on streams that are and are not terminals."""

import io
import re

import pytest

from pipelines.progress import (
    LiveReporter,
    PlainReporter,
    StageProgress,
    duration,
    print_summary,
    reporter,
    size,
)

SUMMARY = {
    "run_id": "r1",
    "lines": 1010,
    "rejected": 10,
    "ingested": 1000,
    "kept": 900,
    "dropped": {"dedupe.exact": 60, "under min_chars": 40},
    "tokens": 1_234_567,
    "packed_rows": 38,
    "padding": 0.00123,
    "cpu_s": 12.34,
    "wall_s": 65.0,
    "peak_rss_bytes": 3 << 29,
    "dataset": "/a/very/long/path/" + "x" * 150,
    "catalog": "/w/catalog.duckdb",
    "stages": [
        {"stage": "ingest", "cached": True, "rows_in": 1010, "rows_out": 1000, "bytes": 2048}
        | {"cpu_s": 0.0, "wall_s": 0.0},
        {"stage": "encode", "cached": False, "rows_in": 1000, "rows_out": 900, "bytes": 0}
        | {"cpu_s": 10.0, "wall_s": 5.0},
        {"stage": "pack", "cached": False, "rows_in": 900, "rows_out": 900, "bytes": 9}
        | {"cpu_s": 0.1, "wall_s": 0.1},
    ],
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_stream_decides_how_progress_is_shown():
    """A terminal gets live bars, anything else plain lines."""
    assert isinstance(reporter(Terminal()), LiveReporter)
    assert isinstance(reporter(io.StringIO()), PlainReporter)


def test_plain_lines_are_few_and_end_with_all_tasks():
    """Each stage is named when it starts and when it is done, and no event floods the log."""
    stream = io.StringIO()
    with reporter(stream) as progress:
        progress(StageProgress("ingest", 0, 0, cached=True))
        progress(StageProgress("encode", 0, 0))
        for done in range(501):
            progress(StageProgress("encode", done, 500, rows=done * 10, bytes=done << 20))
        progress(StageProgress("encode", 500, 500))
    lines = stream.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["ingest", "encode", "encode"]
    assert "cached" in lines[0]
    assert "listing tasks" in lines[1]
    assert "500/500 tasks" in lines[2]
    assert "5,000 rows, 500.0 MiB" in lines[2]


def test_plain_lines_come_again_after_the_interval():
    """A stage that runs on is shown again once the interval has passed."""
    stream = io.StringIO()
    with PlainReporter(stream, interval_s=0.0) as progress:
        for done in range(4):
            progress(StageProgress("encode", done, 9))
            progress(StageProgress("encode", done, 9))
    assert len(stream.getvalue().splitlines()) == 4


def test_live_bars_name_every_stage():
    """The terminal's last picture has all stages with their counts."""
    stream = Terminal()
    with reporter(stream) as progress:
        progress(StageProgress("ingest", 0, 0, cached=True))
        progress(StageProgress("encode", 0, 0))
        progress(StageProgress("encode", 3, 4, rows=7))
    shown = stream.getvalue()
    assert all(word in shown for word in ("ingest", "cached", "encode", "3/4", "7 rows"))


def test_summary_accounts_for_every_line():
    """The final table has the accounts, every reason, the stages, and paths on unbroken lines."""
    stream = io.StringIO()
    print_summary(SUMMARY, stream)
    text = stream.getvalue()
    words = ["1,010", "dropped: dedupe.exact", "60", "900", "1,234,567", "0.123%", "1 min 05 s"]
    assert all(word in text for word in words)
    assert SUMMARY["dataset"] in text
    assert "1.5 GiB" in text


def test_summary_of_a_run_that_packed_nothing():
    """Without rows there is no padding and no dataset, and nothing is made up."""
    stream = io.StringIO()
    left_out = {"packed_rows": 0, "padding": 0.0, "dataset": None, "tokens": 0}
    print_summary({**SUMMARY, **left_out, "stages": SUMMARY["stages"][:1]}, stream)
    assert not re.search("padding|tokens|dataset +/", stream.getvalue())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (59.94, "59.9 s"), (60, "1 min 00 s"), (7800, "2 h 10 min")],
)
def test_durations(seconds, text):
    """Durations read as people say them."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 50, "1024.0 TiB")]
)
def test_sizes(count, text):
    """Sizes have binary units."""
    assert size(count) == text
