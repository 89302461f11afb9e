"""A sandbox that runs: files in it become read-only and are given back, from outside."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import ENV, needs_bubblewrap, room
from treadle.errors import LocalError
from treadle.io.process.child import Child
from treadle.io.sandbox.start import RunningSandbox, start

pytestmark = needs_bubblewrap


async def says(child: Child, command: str) -> str:
    """What a shell that runs on in the sandbox says to a command."""
    await child.stdio.write(f"{{ {command}; }} 2>&1; echo END\n".encode())
    words = b""
    while not words.endswith(b"END\n"):
        more = await child.stdio.read()
        assert more, words
        words += more
    return words.decode().removesuffix("END\n")


@asynccontextmanager
async def shell(top: Path) -> AsyncIterator[tuple[Child, RunningSandbox]]:
    async with (
        asyncio.timeout(60),
        await start(room(top), ["bash"], cwd=str(top), env=ENV, stdin="pipe", stdout="pipe") as child,
    ):
        running = RunningSandbox(child, [str(top), "/nowhere"])
        child.beside.append(running.close)
        yield child, running


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    for name in ("one", "two"):
        (tmp_path / "src" / name).write_text(name)
    return tmp_path


async def test_a_file_is_read_only_until_it_is_given_back_also_for_who_was_there_before(top: Path) -> None:
    one = str(top / "src" / "one")
    async with shell(top) as (child, running):
        assert await says(child, "cd src && echo a > one") == ""
        assert await running.change([one], []) == {}
        assert "Read-only" in await says(child, "echo b > one")
        assert "Read-only" in await says(child, f"echo b > {one}")
        assert await says(child, "mv one three; rm -f one; mv ../src ../gone") != ""
        assert await says(child, "echo b > two") == ""
        assert await running.change([], [one]) == {}
        assert await says(child, "echo c > one") == ""
    assert (top / "src" / "one").read_text() == "c\n" and (top / "src" / "two").read_text() == "b\n"


async def test_what_cannot_be_kept_or_given_back_is_named_and_the_rest_is_done(top: Path) -> None:
    one, gone = str(top / "src" / "one"), str(top / "src" / "gone")
    async with shell(top) as (child, running):
        failed = await running.change([gone, one], [str(top / "src" / "two")])
        assert set(failed) == {gone, str(top / "src" / "two")} and "No such file" in failed[gone]
        assert "Read-only" in await says(child, "echo b > src/one")
        (top / "src" / "deep" / "er").mkdir(parents=True)
        (top / "src" / "deep" / "er" / "three").touch()
        assert await running.change([str(top / "src" / "deep" / "er" / "three")], []) == {}
        assert "Read-only" in await says(child, "cd src/deep/er && echo b > three")
        assert await says(child, f"mv {top}/src/deep {top}/src/other") != "", "a mount point stays where it is"
        assert await says(child, f"echo c > {top}/src/two; cd {top}; echo d > top") == ""
        assert await running.change([], [str(top / "src" / "deep" / "er" / "three")]) == {}
        assert await says(child, f"echo e > {top}/src/deep/er/three") == ""
        running.close()
        running.close()
        assert "Read-only" in await says(child, "echo b > src/one")


async def test_where_nothing_runs_any_more_that_is_said(top: Path) -> None:
    async with await start(room(top), ["true"], cwd=str(top), env=ENV) as child:
        await child.wait()
        with pytest.raises((LocalError, OSError)):
            await RunningSandbox(child, [str(top)]).change([str(top / "src" / "one")], [])
