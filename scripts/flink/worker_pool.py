"""Beam's Python worker pool, on the loopback alone.

``apache_beam.runners.worker.worker_pool_main`` listens on every interface of the machine, and
whoever reaches it can start processes. This is the same service, bound to localhost.
"""

import os
import signal
import sys
from pathlib import Path

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance


def main(port: int) -> None:
    """Serve until the process is told to end."""
    # The pool starts plain ``python``: it has to be the one that has the project installed.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    server = grpc.server(
        shared_unbounded_instance(),
        options=[("grpc.http2.max_pings_without_data", 0), ("grpc.http2.max_ping_strikes", 0)],
    )
    pool = BeamFnExternalWorkerPoolServicer(use_process=True)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    if not server.add_insecure_port(f"localhost:{port}"):
        sys.exit(f"port {port} of localhost is taken")
    server.start()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    server.stop(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
