"""What is kept is started again when it is gone, not for ever, and not after it was stopped."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.fleet.conftest import nothing_left as nothing_left
from tests.waiting import until
from treadle.errors import LocalError
from treadle.fleet import keeper
from treadle.fleet.engine import places
from treadle.io.files import is_locked


def process(place: Path, script: str) -> keeper.WatchedProcess:
    return keeper.WatchedProcess(
        argv=("/bin/sh", "-c", script), cwd=str(place), log=str(place / "log"), note=str(place / "note")
    )


def test_what_never_stays_up_has_failed_with_its_last_lines_and_is_forgiven_by_the_next_start(
    state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_text("first\nthe port is taken\n")
    for _ in range(keeper.MOST):
        assert keeper.may_start("page", str(tmp_path / "log"))
        keeper.started("page")
    assert not keeper.may_start("page", str(tmp_path / "log"))
    found = keeper.restarts("page")
    assert found.failed.splitlines()[1:] == ["  first", "  the port is taken"] and found.total == keeper.MOST
    monkeypatch.setattr(keeper, "WITHIN_SECONDS", 0.0)
    assert not keeper.may_start("page", str(tmp_path / "log")), "time alone does not mend it"
    keeper.forgive(["page"])
    assert keeper.may_start("page", str(tmp_path / "log")) and keeper.restarts("page").total == keeper.MOST


@pytest.mark.slow
def test_the_keeper_starts_again_what_is_gone_until_it_is_stopped(nothing_left: None, tmp_path: Path) -> None:
    os.makedirs(places.root())
    keeper.keep("page", process(tmp_path, "echo started >&2"))
    keeper.ensure()
    deadline = time.monotonic() + 90
    while not keeper.restarts("page").failed:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (tmp_path / "log").read_text() == "started\n" * keeper.MOST
    assert keeper.stop() and keeper.running() is None and not keeper.stop()
    assert keeper.watched() == {}


NOTED = """echo "{\\"pid\\": $$, \\"start\\": $(cut -d' ' -f22 /proc/$$/stat)}" > note; exec sleep 600"""
"""A program that notes itself and stays."""


@pytest.mark.slow
async def test_a_keeper_that_is_killed_together_with_what_it_keeps_is_replaced_and_starts_it_again(
    nothing_left: None, tmp_path: Path
) -> None:
    os.makedirs(places.root())
    page = process(tmp_path, NOTED)
    keeper.keep("page", page)
    await until(lambda: keeper.running() and keeper.lives(page) and is_locked(f"{places.root()}/keeper/standby"))
    first, noted = keeper.running(), keeper.NOTE.load_whole(page.note)
    assert first is not None and noted is not None
    os.kill(first.pid, signal.SIGKILL)
    os.kill(noted.pid, signal.SIGKILL)
    await until(lambda: (found := keeper.running()) and found != first and keeper.lives(page))
    assert keeper.stop() and keeper.running() is None
    again = keeper.NOTE.load_whole(page.note)
    assert again is not None
    os.kill(again.pid, signal.SIGKILL)


UNITS = {
    "fleet": keeper.fleet_unit(True),
    "fleet without a page": keeper.fleet_unit(False),
    "node": keeper.node_unit("n1"),
    "a name of odd signs": keeper.node_unit('a b "%n" $HOME \\'),
}


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_systemd_accepts_the_units(unit: str, tmp_path: Path) -> None:
    assert verified(unit, tmp_path) == ""


def test_the_check_of_units_says_no(tmp_path: Path) -> None:
    assert "Neither a valid executable name" in verified(UNITS["node"].replace("ExecStart=", "ExecStart=./"), tmp_path)


def verified(unit: str, place: Path) -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    (place / "treadle-test.service").write_text(unit)
    env = {**os.environ, "XDG_RUNTIME_DIR": str(place)}
    argv = [program, "--user", "verify", str(place / "treadle-test.service")]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60).stderr


SYSTEMCTL = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLED"
case "$*" in *"$FAILS"*) echo "it fails" >&2; exit 1;; esac
"""


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs that stand in for systemd's note how they were called."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("systemctl", "loginctl"):
        (programs / name).write_text(SYSTEMCTL)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("CALLED", str(tmp_path / "called"))
    monkeypatch.setenv("FAILS", "no-such-words")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "called"


def test_a_unit_is_written_enabled_and_outlives_its_user_s_login(
    called: Path, state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keeper.systemd_available()
    place = tmp_path / "config" / "systemd" / "user" / "treadle-x.service"
    assert keeper.write_unit("treadle-x.service", UNITS["fleet"]) == str(place)
    assert place.read_text() == UNITS["fleet"] and place.stat().st_mode & 0o777 == 0o644
    keeper.enable_unit("treadle-x.service", now=True)
    keeper.enable_unit("treadle-x.service", now=False)
    ends = ["daemon-reload", "enable --now treadle-x.service", "daemon-reload", "enable treadle-x.service"]
    told = [line for line in called.read_text().splitlines() if "enable-linger" not in line]
    assert told == [f"systemctl --user {words}" for words in ("show-environment", *ends)]
    assert called.read_text().count("loginctl enable-linger\n") == 2
    monkeypatch.setenv("FAILS", "enable --now")
    with pytest.raises(LocalError, match="systemctl --user enable --now treadle-x.service failed: it fails"):
        keeper.enable_unit("treadle-x.service", now=True)
    monkeypatch.setenv("FAILS", "show-environment")
    assert not keeper.systemd_available()
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert not keeper.systemd_available()
