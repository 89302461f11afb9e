"""A reaper does what its owner says, and ends its tree when its owner is gone."""

import errno
import os
import signal
from pathlib import Path

import pytest

from tests.io.process.hostile import await_none_left, left
from tests.io.process.trees import hostile, output
from treadle.errors import LocalError
from treadle.io.process import tree
from treadle.wire.common.framing import frame


def program(path: Path, says: str, mode: int = 0o755) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(mode)


def test_a_program_is_looked_for_on_the_path_it_is_given(tmp_path: Path, mark: str) -> None:
    program(tmp_path / "a" / "tool", "not executable", 0o644)
    program(tmp_path / "b" / "tool", "from b")
    env = {"PATH": f"{tmp_path}/none:{tmp_path}/a:{tmp_path}/b", "HOSTILE_MARK": mark}
    assert output(["tool"], env=env)[0] == b"from b\n"
    with pytest.raises(LocalError, match=os.strerror(errno.EACCES)):
        tree.spawn(["tool"], env={"PATH": f"{tmp_path}/a:{tmp_path}/none"})


def test_a_program_named_by_a_relative_path_is_taken_from_its_directory(tmp_path: Path, mark: str) -> None:
    program(tmp_path / "bin" / "tool", "here")
    assert output(["bin/tool"], cwd=str(tmp_path))[0] == b"here\n"


def test_an_argument_with_a_nul_is_refused_and_not_cut(mark: str) -> None:
    with pytest.raises(LocalError, match="cannot start"):
        tree.spawn(["echo", "a\0b"])


def test_a_second_stop_with_less_grace_does_not_wait_for_the_first(mark: str) -> None:
    started = hostile("deaf")
    started.ask_stop(3600)
    assert started.stop(0).killed
    assert left(mark) == []


def test_a_second_stop_with_more_grace_does_not_give_more(mark: str) -> None:
    started = hostile("deaf")
    started.ask_stop(0.05)
    assert started.stop(3600).killed


def test_what_a_reaper_does_not_understand_it_ignores(mark: str) -> None:
    started = tree.spawn(["sleep", "100"])
    started._control.send(frame(200, b"?") + frame(0))
    assert started.stop().left == []
    assert started.exit_code == -signal.SIGTERM


def test_a_reaper_that_is_asked_to_end_ends_its_tree(mark: str) -> None:
    started = hostile("deaf", "daemon")
    os.kill(started.reaper, signal.SIGTERM)
    assert started.wait(60) == -signal.SIGTERM
    assert await_none_left(mark) == []
    started.stop()


def test_letting_go_of_a_tree_ends_it(mark: str) -> None:
    started = hostile("deaf", "session")
    started.close()
    assert await_none_left(mark) == []


def test_the_death_of_the_command_is_told_before_that_of_its_tree(mark: str) -> None:
    started = hostile("daemon")
    started.signal(signal.SIGKILL)
    assert started.wait(60) == -signal.SIGKILL
    assert started.report is None
    started.stop(0)
    assert started.report is not None
