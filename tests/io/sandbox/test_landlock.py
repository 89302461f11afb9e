"""Landlock's plan: what may be written, beside something that may not, and no claim that was not tried."""

import ctypes
import fcntl
import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.safety import as_nobody
from treadle.io.sandbox import landlock
from treadle.session import Confinement


def plan(**fields: Any) -> dict[str, Any]:
    argv = landlock.command(Confinement(**fields))
    assert argv[:4] == [sys.executable, "-I", "-m", "treadle.io.sandbox.landlock"]
    return dict(json.loads(argv[4]))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name in (".git/refs", "src", "lib/.git"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a").touch()
    (tmp_path / "out").symlink_to("/etc")
    return tmp_path


def test_the_workspace_is_granted_whole_where_nothing_in_it_is_kept(top: Path) -> None:
    assert str(top) in plan(write=(str(top),))["writable"]


def test_beside_a_git_directory_each_name_is_granted_and_neither_it_nor_a_link_out(top: Path) -> None:
    granted = plan(write=(str(top),), read_only=(str(top / ".git"), str(top / "lib" / ".git")))["writable"]
    ours = [place for place in granted if place.startswith(str(top))]
    assert ours == [str(top / "a"), str(top / "src")]
    assert not [place for place in granted if place in ("/", "/etc", str(top), str(top / "lib"))]


def test_what_is_kept_for_other_reasons_does_not_narrow_the_grant(top: Path) -> None:
    assert str(top) in plan(write=(str(top),), read_only=(str(top / "a"),))["writable"]


def test_the_temporary_directory_is_granted_and_our_state_only_if_asked(top: Path, state_home: Path) -> None:
    state = os.path.realpath(landlock.state_dir())
    os.makedirs(state, exist_ok=True)
    assert str(top) in plan(temp=str(top))["writable"] and state not in plan(temp=str(top))["writable"]
    assert state in plan(temp=str(top), state=str(top))["writable"]


def test_a_process_that_can_still_write_outside_does_not_count_as_confined() -> None:
    code = "from treadle.io.sandbox.landlock import _prove; import os; os.environ['HOME'] = {!r}; _prove(['/', '/etc'])"
    home = os.path.realpath("/tmp")
    with subprocess.Popen([sys.executable, "-c", code.format(home)], stderr=subprocess.PIPE, text=True) as proving:
        _, complaint = proving.communicate(timeout=60)
    assert proving.returncode == 1 and complaint == f"the sandbox does not hold: {home} can still be written\n"
    assert not os.path.exists(f"{home}/.treadle-sandbox-{proving.pid}")
    nowhere = subprocess.run([sys.executable, "-c", code.format("/proc")], capture_output=True, text=True, timeout=60)
    assert nowhere.returncode != 0, "a place that fails in another way proves nothing"


def test_why_it_cannot_be_used_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(has: int) -> types.SimpleNamespace:
        return types.SimpleNamespace(landlock_abi_version=lambda: has, min_landlock_abi=lambda: 3)

    for has, why in ((3, None), (4, None), (2, "version 2 of it, 3 is needed"), (-1, "version 0 of it, 3 is needed")):
        monkeypatch.setitem(sys.modules, "sandlock", kernel(has))
        found = landlock.problem()
        assert found is None if why is None else found == f"this kernel has {why}"
    monkeypatch.setitem(sys.modules, "sandlock", None)
    assert (landlock.problem() or "").startswith("sandlock is not usable (")
    monkeypatch.setattr(sys, "platform", "plan9")
    assert landlock.problem() == "not on plan9"


def test_devices_that_are_there_can_be_written_and_others_files_only_with_the_right_for_it(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(write=(str(top), str(top)))
    assert {"/dev/null", "/dev/zero"} <= {*made["writable"]} and made["keep"] == []
    assert len(made["writable"]) == len({*made["writable"]}) and all(map(os.path.exists, made["writable"]))
    monkeypatch.setattr(landlock, "DEVICES", ("null", "no-such-device"))
    assert plan()["writable"] == ["/dev/null"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if os.stat(top).st_uid == 0:
        os.chown(top, as_nobody.NO_ID, -1)
    assert plan(write=(str(top),))["keep"] == [1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_all_rights_but_those_that_are_needed_are_given_up() -> None:
    code = (
        "import os; from treadle.io.sandbox import landlock; landlock._give_up_capabilities([1])\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('CapBnd')][0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert int(done.stdout, 16) == 2, done.stderr


def confined(answer: bytes, confine: Any) -> tuple[bytes, bytes, bytes, int]:
    """What a helper reports, the command prints and the helper complains, and the exit code."""
    (go, tell), (heard, report), (printed, stdout), (complained, stderr) = (os.pipe() for _ in range(4))
    pid = os.fork()
    if pid == 0:
        try:
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 100) for end in (stdout, stderr, go, report)]
            for number, end in enumerate(ends, start=1):
                os.dup2(end, number)
            os.closerange(5, 1024)
            sys.stderr = os.fdopen(2, "w", closefd=False)
            box = types.SimpleNamespace(SandlockError=RuntimeError, Sandbox=dict, confine=confine)
            sys.modules["sandlock"] = box  # type: ignore[assignment]
            code = "import socket\ntry: socket.socket(socket.AF_UNIX)\nexcept PermissionError: print('no sockets')"
            home = os.path.expanduser("~")
            landlock.main(["/", "/etc", home], [1], [sys.executable, "-I", "-S", "-c", code])
        except SystemExit as error:
            os.write(2, str(error.code).encode())
        finally:
            os._exit(99)
    for end in (go, report, stdout, stderr):
        os.close(end)
    os.write(tell, answer)
    os.close(tell)
    said = []
    for end in (heard, printed, complained):
        with os.fdopen(end, "rb") as pipe:
            said.append(pipe.read())
    return said[0], said[1], said[2], os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_command_runs_when_it_is_confined_and_we_said_so() -> None:
    def confine(box: dict[str, list[str]]) -> None:
        assert box == {"fs_readable": ["/"], "fs_writable": ["/", "/etc", os.path.expanduser("~")]}
        ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # no new privileges, as Landlock needs it too

    def refuse(box: object) -> None:
        raise RuntimeError("not today")

    assert confined(b"\n", confine) == (b"r", b"no sockets\n", b"", 0)
    assert confined(b"", confine) == (b"r", b"", b"125", 99), "we are gone"
    assert confined(b"\n", refuse) == (b"", b"", b"Landlock refused to confine this process: not today", 99)
