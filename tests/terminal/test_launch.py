"""Starting a terminal: what is refused before anything runs, and what is cleaned up first."""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.terminal.support import Stage, alive, connected, log_lines, until, watch
from treadle.io.process import table
from treadle.terminal import lock
from treadle.terminal.launch import supervise
from treadle.terminal.places import Place
from treadle.terminal.supervisor import Supervisor


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"id": "../x"}, "cannot be the id"), ({"workdir": "/no/such"}, "/no/such"), ({"cols": 70000}, "cols")],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(
    stage: Stage, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(RuntimeError, match=words):
        stage.start("true", **settings)
    assert list(stage.directory.iterdir()) == []


def test_the_files_of_an_earlier_session_of_the_same_id_are_put_away(stage: Stage) -> None:
    place = stage.start("sh", "-c", "echo first; exit 1", id="x", linger=0.0)
    until(lambda: not os.path.exists(place.pid))
    assert watch(stage.start("sh", "-c", "echo second", id="x"))[0] == b"second\r\n"
    assert Path(place.out).read_bytes() == b"second\r\n"


def test_a_directory_with_a_long_name_gets_a_short_socket(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100)
    directory.mkdir(mode=0o700)
    stage = Stage(directory)
    try:
        place = stage.start("sleep", "60")
        assert len(place.sock) <= 107 and not place.sock.startswith(str(directory))
        with connected(place) as client:
            assert client.status().alive == 1
    finally:
        stage.close()


def test_every_file_of_an_earlier_session_is_gone(stage: Stage) -> None:
    place = Place(str(stage.directory), "x")
    for path in (place.out, f"{place.out}.1", place.state, place.summary):
        Path(path).write_text("old")
    Path(place.exit).write_text('{"format": 1, "id": "x", "code": 0}')
    stage.start("cat", id="x")
    assert not os.path.exists(place.exit) and not os.path.exists(f"{place.out}.1")
    assert not os.path.exists(place.out) or b"old" not in Path(place.out).read_bytes()
    with connected(place) as client:
        assert client.detail()["state_file"] == place.state


def test_a_file_that_cannot_be_removed_is_named_and_the_id_stays_free(stage: Stage) -> None:
    place = Place(str(stage.directory), "x")
    os.mkdir(place.out)
    with pytest.raises(RuntimeError, match=f"cannot remove {place.out}"):
        stage.start("cat", id="x")
    assert not os.path.exists(place.pid)
    os.rmdir(place.out)
    stage.start("cat", id="x")


def descriptors(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            found.add(os.readlink(link))
    return found


def test_a_supervisor_has_a_session_of_its_own_and_nothing_of_who_started_it(stage: Stage) -> None:
    place = stage.start("cat")
    supervisor, child = place.pids()
    assert os.getsid(supervisor) == supervisor != os.getsid(0) and os.getsid(child) == child
    streams = [os.readlink(f"/proc/{supervisor}/fd/{fd}") for fd in range(3)]
    assert streams == ["/dev/null"] * 3
    inherited = descriptors(supervisor) & descriptors(os.getpid())
    assert not [name for name in inherited if name.startswith(("pipe:", "socket:"))]
    assert " ".join(table.command_line(supervisor)).startswith(f"treadle: terminal {place.id}")
    (reaper,) = [each for each in table.descendants(supervisor) if each.parent == supervisor]
    assert " ".join(table.command_line(reaper.pid)).startswith("treadle: reaper of a terminal")


def test_a_program_that_cannot_run_is_said_with_the_reason_and_its_supervisor_does_not_stay(stage: Stage) -> None:
    with pytest.raises(RuntimeError, match="session t1 did not start: .*no-such-program"):
        stage.start("/no-such-program", linger=0.0)
    until(lambda: not list(stage.directory.glob("*.pid")))


def test_one_that_lingers_makes_way_and_one_that_runs_does_not(stage: Stage) -> None:
    place = stage.start("sh", "-c", "exit 3", id="x", linger=60.0)
    until(lambda: os.path.exists(place.exit))
    first = place.pids()[0]
    stage.start("cat", id="x")
    second = place.pids()[0]
    assert second != first
    until(lambda: not alive(first))
    with pytest.raises(RuntimeError, match=f"session x is already running: supervisor {second}"):
        stage.start("cat", id="x")
    assert place.pids()[0] == second and alive(second)


SERVED = """
import sys
from treadle.terminal.launch import serve
from treadle.terminal.settings import TerminalSettings
settings = TerminalSettings()
settings.directory, settings.linger, settings.command = sys.argv[1], 0.0, sys.argv[2:]
sys.exit(serve(settings))
"""


@pytest.mark.parametrize("address", ["{}/notify", "@{}"])
def test_a_service_says_when_it_is_ready_and_ends_with_its_programs_code(tmp_path: Path, address: str) -> None:
    tmp_path.chmod(0o700)
    address = address.format(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(address.replace("@", "\0"))
        notify.settimeout(50)
        command = [sys.executable, "-c", SERVED, str(tmp_path / "d"), "sh", "-c", "read a; exit 4"]
        service = subprocess.Popen(command, env={**os.environ, "NOTIFY_SOCKET": address}, stdin=subprocess.DEVNULL)
        try:
            assert notify.recv(1000).decode() == f"READY=1\nMAINPID={service.pid}\n"
            place = Place(str(tmp_path / "d"), "sh")
            assert place.pids()[0] == service.pid
            with connected(place) as client:
                client.input(b"\n")
            assert service.wait(50) == 4
        finally:
            service.kill()
            service.wait()
    assert not os.path.exists(place.pid) and Path(tmp_path / "d").stat().st_mode & 0o077 == 0


def test_a_service_whose_program_cannot_run_says_so_and_is_not_ready(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    command = [sys.executable, "-c", SERVED, str(tmp_path / "d"), "/no-such-program"]
    env = {**os.environ, "NOTIFY_SOCKET": f"{tmp_path}/nobody"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 127 and "treadle: session no-such-program did not start: " in done.stderr


def test_a_supervisor_that_fails_says_why_in_its_log(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "x")
    held, (said, tell) = lock.take(place), os.pipe()
    child = os.fork()
    if child == 0:
        setattr(Supervisor, "run", lambda self: 1 // 0)  # noqa: B010
        supervise({"id": "x", "directory": str(tmp_path), "command": ["sleep", "60"], "workdir": "/"}, held.fd, tell)
    for fd in (held.fd, tell):
        os.close(fd)
    assert os.read(said, 100) == b"ok\n"
    os.close(said)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 70
    (line,) = [line for line in log_lines(place) if line["event"] == "the supervisor failed"]
    assert (line["level"], line["session"]) == ("error", "x") and "ZeroDivisionError" in line["reason"]
    until(lambda: not os.path.exists(place.pid))
