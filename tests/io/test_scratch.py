"""Temporary directories: those of living processes stay, those of killed ones are removed."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.descriptors import opened
from treadle.io import scratch

HOLDS = """
import sys
from treadle.io import scratch
place = scratch.make("test")
open(f"{place}/kept", "w").close()
print(place, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def holder() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_it_is_there_until_it_is_removed(tmp_path: Path) -> None:
    with scratch.directory("one") as place:
        (Path(place) / "deep").mkdir()
        assert Path(place).stat().st_mode & 0o777 == 0o700 and os.path.dirname(place) == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_living_process_stays_and_that_of_a_killed_one_goes(
    holder: tuple[subprocess.Popen[str], Path],
) -> None:
    process, place = holder
    with scratch.directory("test"):
        assert (place / "kept").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert place.exists()
    with scratch.directory("other"):
        assert not place.exists()


def test_one_that_was_never_held_goes_after_a_while_and_others_things_are_left_alone(tmp_path: Path) -> None:
    new, old, foreign, link = (tmp_path / name for name in (".treadle-tmp-a", ".treadle-tmp-b", "treadle-x", "t"))
    for one in (new, old, foreign):
        one.mkdir()
    os.utime(old, (1, 1))
    link.symlink_to(foreign)
    link.rename(tmp_path / "treadle-tmp-link")
    with scratch.directory("test"):
        assert new.exists() and foreign.exists() and not old.exists()
    assert (tmp_path / "treadle-tmp-link").is_symlink()


def test_what_this_process_holds_goes_at_once_and_its_lock_with_it(tmp_path: Path) -> None:
    before = opened()
    one, two = scratch.make("one"), scratch.make("two")
    assert os.path.basename(one).startswith("treadle-tmp-one-") and os.path.basename(two).startswith("treadle-tmp-two-")
    (tmp_path / "treadle-tmp-left").mkdir()
    (tmp_path / ".treadle-tmp-new").mkdir()
    scratch.remove_all()
    assert os.listdir(tmp_path) == [".treadle-tmp-new"] and opened() == before
    with pytest.raises(ZeroDivisionError), scratch.directory("three"):
        raise ZeroDivisionError
    scratch.remove(str(tmp_path / "none"))
    assert os.listdir(tmp_path) == [".treadle-tmp-new"] and opened() == before


def test_one_that_cannot_be_named_leaves_nothing(tmp_path: Path) -> None:
    before = opened()
    with pytest.raises(OSError):
        scratch.make("no/such/kind")
    assert os.listdir(tmp_path) == [] and opened() == before


def test_what_belongs_to_another_user_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "treadle-tmp-x").mkdir()
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    scratch.remove_all()
    assert os.listdir(tmp_path) == ["treadle-tmp-x"]


def test_what_cannot_be_removed_is_removed_as_far_as_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = scratch.make("x")
    (Path(place) / "deep" / "er").mkdir(parents=True)

    def refused(*names: str, **where: int) -> None:
        raise OSError(errno.EBUSY, "no")

    monkeypatch.setattr(os, "rename", refused)
    scratch.remove(place)
    assert os.listdir(tmp_path) == []
