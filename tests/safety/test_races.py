"""Links that are swapped while a tool is at work: what is judged is what is touched, 1,000 times of 1,000.

A process of its own flips a directory and a file between the workspace and the world outside as fast as it can; tools
are called as the agent's loop calls them: resolve, judge, run.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.agent.tools.files import Resolved
from treadle.errors import ToolError
from treadle.io.paths import DISK
from treadle.policy.rules import Profile

FLIP = """
import os, sys
place, outside = sys.argv[1:]
while True:
    for target in ("inside", outside):
        os.symlink(target, place + "/new")
        os.rename(place + "/new", place + "/d")
        os.symlink(target + "/file", place + "/new2")
        os.rename(place + "/new2", place + "/f")
"""
ROUNDS = 250


@contextmanager
def flipping(workspace: Path, outside: Path) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", FLIP, str(workspace), str(outside)])
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    workspace, outside = tmp_path / "w", tmp_path / "out"
    for place, content in ((workspace / "inside", "inside"), (outside, "canary-outside")):
        place.mkdir(parents=True)
        (place / "file").write_text(content + "\n")
    (workspace / "f").symlink_to("inside/file")
    (workspace / "d").symlink_to("inside")
    return workspace, outside


async def call(name: str, args: dict[str, Any], workspace: Path) -> str:
    """What the model reads; nothing when it was not permitted or could not be done."""
    guard = Profile(str(workspace), mode="full-auto", disk=DISK)
    tool = toolbox.load(name)
    context = Workspace(workspace, resolve=Resolved(workspace), backup=lambda path: None).context
    decoded = toolbox.decode(tool, msgspec.json.encode(args).decode())
    for _ in range(2):  # a file that was not read is shown at first, and written then
        try:
            if guard(tool.access(decoded, context.resolve)).verdict != "allow":
                return ""
            return await tool.run(decoded, context)
        except ToolError as error:
            assert "canary" not in str(error)
    return ""


@pytest.mark.parametrize("path", ["d/file", "f"])
async def test_nothing_outside_is_read(path: str, places: tuple[Path, Path]) -> None:
    workspace, outside = places
    told = 0
    with flipping(workspace, outside):
        for _ in range(ROUNDS):
            said = await call("read_file", {"file_path": path}, workspace)
            assert "canary" not in said
            told += "inside" in said
    assert told > 0  # it was a race, and not a wall


@pytest.mark.slow
@pytest.mark.parametrize("path", ["d/made", "f"])
async def test_nothing_outside_is_written(path: str, places: tuple[Path, Path]) -> None:
    workspace, outside = places
    written = 0
    with flipping(workspace, outside):
        for number in range(ROUNDS):
            args = {"file_path": path, "content": f"number {number}\n"}
            written += bool(await call("write_file", args, workspace))
            assert sorted(os.listdir(outside)) == ["file"]
    assert (outside / "file").read_text() == "canary-outside\n"
    assert written > 0


async def test_a_search_shows_nothing_from_outside(places: tuple[Path, Path]) -> None:
    workspace, outside = places
    with flipping(workspace, outside):
        for _ in range(20):
            assert "canary" not in await call("grep", {"pattern": ".", "path": "d"}, workspace)
            assert "out" not in (await call("glob", {"pattern": "**/*", "path": "d"}, workspace)).split("/")
