"""Two live clients of one name are two identities; a client that comes back is who it was."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.coordination.planning import Planning
from treadle.coordination.seats import Seats

ROOT = "haid:ann.box-0001"


@pytest.fixture
def planning(tmp_path: Path) -> Planning:
    return Planning(str(tmp_path / ".planning"), project=str(tmp_path))


def test_the_second_of_a_name_gets_a_number_and_the_first_keeps_its_own(planning: Planning) -> None:
    first, second, third = (Seats(planning, ROOT) for _ in range(3))
    assert first.haid("Claude Code") == f"{ROOT}/claude-code"
    assert second.haid("claude-code") == f"{ROOT}/claude-code-2"
    assert first.haid("claude-code") == f"{ROOT}/claude-code"
    assert third.haid("cursor") == f"{ROOT}/cursor"
    first.leave()
    assert third.haid("claude-code") == f"{ROOT}/claude-code"
    second.leave()
    third.leave()


def test_a_name_of_nothing_plain_is_a_client_all_the_same(planning: Planning) -> None:
    seats = Seats(planning, f"{ROOT}/spawned")
    assert seats.haid("!!!") == f"{ROOT}/mcp-client"
    seats.leave()


def test_a_killed_server_frees_its_seat(planning: Planning) -> None:
    code = (
        "import sys; from treadle.coordination.planning import Planning; from treadle.coordination.seats import Seats\n"
        f"seats = Seats(Planning({planning.root!r}), {ROOT!r}); print(seats.haid('cursor'), flush=True)\n"
        "sys.stdin.read()"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None and server.stdin is not None
    assert server.stdout.readline() == f"{ROOT}/cursor\n"
    mine = Seats(planning, ROOT)
    assert mine.haid("cursor") == f"{ROOT}/cursor-2"
    mine.leave()
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    server.stdout.close()
    server.stdin.close()
    again = subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, timeout=60)
    assert again.stdout == f"{ROOT}/cursor\n"  # started by the same program, which still runs
