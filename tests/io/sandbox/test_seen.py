"""A confined program sees what was meant, or it does not start."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.descriptors import opened
from tests.io.sandbox.rooms import ENV, HAS_BUBBLEWRAP, repository, room
from treadle.confinement import Mount
from treadle.errors import LocalError
from treadle.io import descriptors
from treadle.io.process import table
from treadle.io.sandbox import bubblewrap
from treadle.io.sandbox.start import _is_hidden, _is_read_only, check, start

if HAS_BUBBLEWRAP:

    @pytest.fixture
    async def inside(tmp_path: Path) -> AsyncIterator[tuple[int, bubblewrap.Mounts]]:
        """The first process of a sandbox, and what is mounted in it."""
        repository(tmp_path)
        for name in ("secrets", "open", "elsewhere"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "file").touch()
        hidden = (str(tmp_path / "secrets"), str(tmp_path / "open" / "file"))
        walls = room(tmp_path, hidden=hidden)
        mounts = bubblewrap.Mounts(walls)
        child = await start(walls, ["bash", "-c", "echo up; read end"], cwd=str(tmp_path), env=ENV, stdin="pipe")
        async with child:
            assert await child.stdio.read() == b"up\n"
            yield table.descendants(child.pid)[0].pid, mounts

    def test_what_is_as_it_was_meant_is_fine(inside: tuple[int, bubblewrap.Mounts]) -> None:
        check(*inside)

    @pytest.mark.parametrize("kind", ["read_only", "hidden"])
    @pytest.mark.parametrize("name", ["elsewhere", "elsewhere/file", "file.txt"])
    def test_what_can_be_written_or_seen_and_should_not_is_found(
        inside: tuple[int, bubblewrap.Mounts], tmp_path: Path, kind: str, name: str
    ) -> None:
        first, mounts = inside
        getattr(mounts, kind).append(str(tmp_path / name))
        with pytest.raises(LocalError, match=f"does not hold: {tmp_path}/{name} was moved"):
            check(first, mounts)

    @pytest.mark.parametrize("name", [".git"])
    def test_another_file_of_the_same_name_is_found(
        inside: tuple[int, bubblewrap.Mounts], tmp_path: Path, name: str
    ) -> None:
        """Outside the sandbox a mount point can be renamed, and the mount goes with it."""
        os.rename(tmp_path / name, tmp_path / "old")
        os.symlink(tmp_path / "old", tmp_path / name)
        with pytest.raises(LocalError, match="was moved"):
            check(*inside)


class Planned(bubblewrap.Mounts):
    """What was meant to be mounted, in lists that a test fills."""

    def __init__(self, workspace: Path) -> None:
        self.write = [str(workspace)]
        self.pins: list[str] = []
        self.read_only: list[str] = []
        self.hidden: list[str] = []
        self.shown: list[Mount] = []


def test_each_place_must_be_the_same_file_read_only_or_hidden(tmp_path: Path) -> None:
    """This process sees what it sees: all of it can be written, and nothing is hidden but what was made so."""
    for name in ("dir", "closed"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "dir" / "x").touch()
    (tmp_path / "link").symlink_to("dir")
    (tmp_path / "closed").chmod(0)
    before = opened()

    def found(**places: list[Any]) -> str:
        planned = Planned(tmp_path)
        for name, given in places.items():
            getattr(planned, name).extend(given)
        try:
            check(os.getpid(), planned)
        except LocalError as error:
            assert error.hint == "try again; something else is at work in this directory"
            return str(error).removeprefix("the sandbox does not hold: ").partition(" was moved while it was made")[0]
        return ""

    file, link, closed = (str(tmp_path / name) for name in ("file", "link", "closed"))
    assert found() == "" and found(pins=[file]) == "" and found(pins=[f"{link}/x"]) == f"{link}/x"
    assert found(write=[f"{tmp_path}/none"]) == f"{tmp_path}/none"
    assert found(read_only=[file]) == file and found(hidden=[file]) == file and found(hidden=[str(tmp_path / "dir")])
    assert found(hidden=[closed]) == "" and found(read_only=[closed], hidden=[closed]) == ""
    assert found(pins=[closed + "/x"], hidden=[closed]) == "", "what is below something hidden cannot be looked at"
    assert found(shown=[Mount(file, file, True)]) == "" and found(shown=[Mount(file, file)]) == file
    assert found(shown=[Mount(file, closed, True)]) == closed and found(shown=[Mount("/dev/null", file, True)]) == file
    with descriptors.directory("/") as top:
        assert [_is_hidden(top, f"/dev/{name}") for name in ("null", "zero")] == [True, False]
        assert not _is_read_only(top, str(tmp_path)) and not _is_hidden(top, str(tmp_path))
    assert opened() == before
