"""Several ranks as forks of the test's own process, which has torch loaded already."""

import os
import socket
import sys
import time
import traceback


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def run_ranks(function, world=2, seconds=90):
    """Call ``function(rank)`` in ``world`` processes; return their exit codes (its int, or 70)."""
    port, children = free_port(), []
    for rank in range(world):
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            _child(function, rank, world, port)
        children.append(pid)
    end, codes = time.monotonic() + seconds, {}
    while len(codes) < world:
        for pid in set(children) - codes.keys():
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[pid] = os.waitstatus_to_exitcode(status)
                if codes[pid] and time.monotonic() + 5 < end:
                    end = time.monotonic() + 5  # as a launcher does, end the others soon
        if time.monotonic() > end:
            for pid in set(children) - codes.keys():
                os.kill(pid, 9)
        time.sleep(0.01)
    return [codes[pid] for pid in children]


def _child(function, rank, world, port):
    code = 70
    try:
        os.environ.update(
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(world),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
        )
        code = int(function(rank) or 0)
    except BaseException:  # noqa: BLE001 - a child ends here, whatever happened
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
