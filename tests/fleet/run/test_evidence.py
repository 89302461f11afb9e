import os
import subprocess
import sys

from treadle.fleet.run import execute


def test_a_tree_shows_its_processes_their_work_and_their_connections() -> None:
    code = "import socket; s = socket.socket(); sum(range(3_000_000)); print(1, flush=True); input()"
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == b"1\n"
            seen = execute.of_tree(os.getpid())
            assert seen.processes >= 1 and seen.cpu > 0 and seen.sockets >= 1
            alone = execute.of_tree(child.pid)
            assert (alone.processes, alone.sockets) == (0, 0), "below it, not it"
            assert execute._sockets(child.pid) == 1
        finally:
            child.kill()
    assert execute._sockets(child.pid) == 0, "it is gone"
