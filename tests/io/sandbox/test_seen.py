"""A confined program sees what was meant, or it does not start."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import ENV, repository, room
from treadle.errors import LocalError
from treadle.io.process import table
from treadle.io.sandbox import bubblewrap, methods, seen
from treadle.io.sandbox.start import start

if methods.available().method == "bubblewrap":

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
        seen.check(*inside)

    @pytest.mark.parametrize("kind", ["read_only", "hidden"])
    @pytest.mark.parametrize("name", ["elsewhere", "elsewhere/file", "file.txt"])
    def test_what_can_be_written_or_seen_and_should_not_is_found(
        inside: tuple[int, bubblewrap.Mounts], tmp_path: Path, kind: str, name: str
    ) -> None:
        first, mounts = inside
        getattr(mounts, kind).append(str(tmp_path / name))
        with pytest.raises(LocalError, match=f"does not hold: {tmp_path}/{name} was moved"):
            seen.check(first, mounts)

    @pytest.mark.parametrize("name", [".git"])
    def test_another_file_of_the_same_name_is_found(
        inside: tuple[int, bubblewrap.Mounts], tmp_path: Path, name: str
    ) -> None:
        """Outside the sandbox a mount point can be renamed, and the mount goes with it."""
        os.rename(tmp_path / name, tmp_path / "old")
        os.symlink(tmp_path / "old", tmp_path / name)
        with pytest.raises(LocalError, match="was moved"):
            seen.check(*inside)
