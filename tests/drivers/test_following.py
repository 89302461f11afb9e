"""A running sandbox follows what others claim and release."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.machines import no_bubblewrap as no_bubblewrap
from treadle.drivers import confined as following
from treadle.drivers.confined import FollowedClaims
from treadle.io.process.child import Child
from treadle.io.sandbox import methods
from treadle.io.sandbox.start import start
from treadle.sandboxed.confining import Confining
from treadle.session import Confinement

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")


class Shell:
    """A shell that runs on in a sandbox, as an agent does."""

    def __init__(self, child: Child, followed: FollowedClaims, held: dict[str, str]) -> None:
        self._child = child
        self.followed = followed
        self.held = held

    async def run(self, command: str) -> str:
        await self._child.stdio.write(f"{{ {command}; }} 2>&1; echo END\n".encode())
        said = b""
        while not said.endswith(b"END\n"):
            more = await self._child.stdio.read()
            assert more, said
            said += more
        return said.decode().removesuffix("END\n")


@asynccontextmanager
async def shell(top: Path, *held: str) -> AsyncIterator[Shell]:
    by = {str(top / name): f"{name} held by bob" for name in held}
    confining = Confining(str(top), (), Confinement(use="on"), session="s", holding=lambda: by)
    begun = confining.now()
    assert begun is not None
    async with await start(begun, ["bash"], cwd=str(top), stdin="pipe", stdout="pipe") as child:
        followed = FollowedClaims(confining, child, begun)
        child.beside.append(followed.close)
        yield Shell(child, followed, by)
    confining.close()


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "src/deep").mkdir(parents=True)
    for name in ("one", "two"):
        (tmp_path / "src/deep" / name).write_text(f"{name}\n")
    return tmp_path


async def test_what_is_taken_while_it_runs_is_read_only_at_once_and_given_back(top: Path) -> None:
    one, two = top / "src/deep/one", top / "src/deep/two"
    async with shell(top) as inside:
        assert await inside.run("cd src/deep; echo before >> one") == ""
        inside.held[str(one)] = "one held by bob"
        await inside.followed.look()
        for way in ("echo x > one", f"echo x >> {one}", "rm -f one", "mv one x", f"cd {top}; mv src y; cd src/deep"):
            said = await inside.run(way)
            assert "Read-only" in said or "busy" in said, way
        assert one.read_text() == "one\nbefore\n" and await inside.run("echo free >> two") == ""
        inside.held[str(two)] = "two held by bob"  # its directory is a mount point by now
        await inside.followed.look()
        assert "Read-only" in await inside.run("echo x >> two")
        assert "Read-only" in await inside.run(f"echo x >> {two}")
        del inside.held[str(one)]
        await inside.followed.look()
        assert await inside.run(f"echo after >> one; echo again >> {one}") == ""
        assert "Read-only" in await inside.run("echo x >> two")
        assert one.read_text() == "one\nbefore\nafter\nagain\n" and two.read_text() == "two\nfree\n"
        told = [f"read-only for this agent from now on: {name} held by bob" for name in ("one", "two")]
        assert await inside.followed.news() == told


async def test_what_was_held_at_the_start_is_given_back_too(top: Path) -> None:
    async with shell(top, "src/deep/one") as inside:
        assert "Read-only" in await inside.run("echo x >> src/deep/one")
        inside.held.clear()
        await inside.followed.look()
        assert await inside.run("echo mine >> src/deep/one") == ""


async def test_a_directory_and_later_one_file_in_it(top: Path) -> None:
    async with shell(top) as inside:
        inside.held[str(top / "src")] = "src held by bob"
        await inside.followed.look()
        assert "Read-only" in await inside.run("echo x > src/new")
        assert "Read-only" in await inside.run("echo x >> src/deep/one")
        inside.held.clear()
        inside.held[str(top / "src/deep/one")] = "one held by bob"
        await inside.followed.look()
        assert "Read-only" in await inside.run("echo x >> src/deep/one")
        assert await inside.run("echo x > src/new; echo x >> src/deep/two") == ""


async def test_the_program_itself_cannot_take_it_off(top: Path) -> None:
    async with shell(top) as inside:
        inside.held[str(top / "src/deep/one")] = "one held by bob"
        await inside.followed.look()
        await inside.run(
            f"umount {top}/src/deep/one; mount -o remount,rw {top}/src/deep/one; unshare -rm umount {top}/src/deep/one"
        )
        assert "Read-only" in await inside.run("echo x >> src/deep/one")


async def test_a_path_that_is_gone_meanwhile_is_told_and_the_rest_is_kept(top: Path) -> None:
    async with shell(top) as inside:
        inside.held |= {str(top / "gone"): "gone held by bob", str(top / "src/deep/one"): "one held by bob"}
        await inside.followed.look()
        assert any("gone is not protected" in note for note in await inside.followed.news())
        assert "Read-only" in await inside.run("echo x >> src/deep/one")
        assert os.path.exists(top / "src/deep/one")


@asynccontextmanager
async def followed(top: Path, held: Callable[[], Mapping[str, str]], *begun: str) -> AsyncIterator[FollowedClaims]:
    """The claims of a program that is in no sandbox, so that none can be changed."""
    confining = Confining(str(top), (), Confinement(use="on"), session="s", holding=held)
    async with await start(None, ["/bin/cat"], cwd=str(top), stdin="pipe", stdout="pipe") as child:
        made = FollowedClaims(confining, child, Confinement(held=dict.fromkeys(begun, "by bob")))
        try:
            yield made
        finally:
            made.close()
    confining.close()


async def test_claims_that_can_no_longer_be_followed_are_told_of(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "SECONDS", 0.0)
    async with followed(top, dict) as claims:
        assert claims._task is not None and await claims.news() == []
    async with asyncio.timeout(60):
        await asyncio.wait([claims._task])
    assert claims._task.cancelled()

    def lost() -> Mapping[str, str]:
        raise OSError("the records are gone")

    for held, why in (
        (lost, "the records are gone"),
        (lambda: {str(top / "src"): "x"}, "the sandbox cannot be changed: nothing runs in it"),
    ):
        async with followed(top, held) as claims, asyncio.timeout(60):
            assert claims._task is not None
            await claims._task
            assert await claims.news() == [f"what others claim from now on is not protected from this agent: {why}"]
            assert await claims.news() == [], "told once"


async def test_what_is_held_as_before_changes_nothing(top: Path) -> None:
    async with followed(top, lambda: {str(top / "src"): "renewed by bob"}, str(top / "src")) as claims:
        await claims.look()
        assert await claims.news() == []


async def test_where_there_is_no_bubblewrap_nothing_is_followed(top: Path, no_bubblewrap: None) -> None:
    async with followed(top, dict) as claims:
        assert claims._task is None
