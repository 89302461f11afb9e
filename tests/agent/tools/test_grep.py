import asyncio
import json
import os
import sysconfig
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agent.tools.workspace import Workspace
from tests.conftest import need
from tests.waiting import until
from treadle.agent.tools.search import Grep, GrepArgs
from treadle.errors import ToolError
from treadle.io.process import table
from treadle.io.process.tree import own

INSTALLED = os.path.join(sysconfig.get_path("scripts"), "rg")
PROGRAMS = {"rg on PATH": lambda: need("rg"), "the installed rg": lambda: INSTALLED}


@pytest.fixture(params=PROGRAMS)
def grep(request: pytest.FixtureRequest, workspace: Workspace) -> Any:
    return searcher(workspace, PROGRAMS[request.param]())


def searcher(workspace: Workspace, program: str | None) -> Any:
    async def run(pattern: str, **args: Any) -> str:
        return await Grep(lambda workspace: program).run(GrepArgs(pattern=pattern, **args), workspace.context)

    return run


@pytest.fixture(autouse=True)
def sources(workspace: Workspace) -> None:
    workspace.write("src/a.py", "import os\n\ndef find(x):\n    return os.path\n\n\ndef other():\n    pass\n")
    workspace.write("src/b.ts", "export function find() {}\n")
    workspace.write("README.md", "How to find things.\r\nFIND\r\n")
    workspace.write("a/z.txt", "find\n")
    workspace.write("a.txt", "find")
    workspace.write("build/out.py", "find\n")
    workspace.write(".gitignore", "build/\n")
    workspace.write(".git/config", "find\n")
    workspace.write("picture.bin", b"find\n" + b"x" * 100_000 + b"\0")


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("*.py", ["src/a.py"]),
        ("*.{py,ts}", ["src/a.py", "src/b.ts"]),
        ("src/*", ["src/a.py", "src/b.ts"]),
        ("**/*.txt", ["a/z.txt", "a.txt"]),
        ("src/", ["src/a.py", "src/b.ts"]),
        ("src/{*.ts,a.py}", ["src/a.py", "src/b.ts"]),
        ("out.py", ["[no match]"]),
    ],
)
async def test_a_glob_narrows_the_files_and_brings_back_no_ignored_one(grep: Any, glob: str, files: list[str]) -> None:
    assert (await grep("find", glob=glob, output_mode="files_with_matches")).split("\n") == files


async def test_looking_around_is_refused_by_a_program_that_cannot(workspace: Workspace) -> None:
    old = workspace.root.parent / "rg"
    old.write_text(f"#!/bin/sh\nexec {INSTALLED} $(printf '%s ' \"$@\" | sed 's/--engine auto/--engine default/')\n")
    old.chmod(0o755)
    with pytest.raises(ToolError, match="look-around"):
        await searcher(workspace, str(old))("foo(?!bar)")


@pytest.fixture
def endless(workspace: Workspace) -> str:
    """A program that finds nothing and does not end."""
    program = workspace.root.parent / "endless-rg"
    program.write_text("#!/bin/sh\nexec sleep 600.125\n")
    program.chmod(0o755)
    return str(program)


async def test_a_search_that_never_ends_is_stopped_and_leaves_no_process(workspace: Workspace, endless: str) -> None:
    context = msgspec.structs.replace(workspace.context, timeout=0.5)
    result = await Grep(lambda workspace: endless).run(GrepArgs(pattern="x"), context)
    assert "stopped after 0.5 s" in result
    await until(lambda: not _searches())


async def test_an_interrupt_ends_the_search(workspace: Workspace, endless: str) -> None:
    running = asyncio.ensure_future(Grep(lambda workspace: endless).run(GrepArgs(pattern="x"), workspace.context))
    await until(_searches)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not _searches())


def _searches() -> bool:
    """Whether our own keeper runs one: others may search on this machine too."""
    kept = table.descendants(own.pid) if own.pid else []
    return any("600.125" in table.command_line(each.pid) for each in kept)


async def test_what_rules_hide_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "hiding").mkdir()
    workspace = Workspace(tmp_path / "hiding", hidden=lambda path: "/secrets/" in path)
    workspace.write("secrets/key", "needle")
    workspace.write("open", "needle")
    assert await workspace.run("grep", pattern="needle") == "open:1:needle"


async def test_a_fifo_a_wrong_glob_and_a_pattern_across_lines_are_refused(workspace: Workspace) -> None:
    grep = searcher(workspace, INSTALLED)
    os.mkfifo(workspace.root / "pipe")
    with pytest.raises(ToolError, match="is a FIFO"):
        await grep("x", path="pipe")
    for pattern in ("a\nb", r"a\nb", "a\0b"):
        with pytest.raises(ToolError, match="within one line"):
            await grep(pattern)
    with pytest.raises(ToolError, match="a pattern may have at most"):
        await grep("x", glob="a" * 100_000)
    access = Grep().access(GrepArgs(pattern="x", path="src"), workspace.context.resolve)
    assert (access.tool, access.kind, access.paths) == ("grep", "read", (str(workspace.root / "src"),))
    assert Grep().access(GrepArgs(pattern="x"), workspace.context.resolve).paths == (str(workspace.root),)


async def test_what_a_file_does_not_hold_is_not_shown_whoever_says_so(workspace: Workspace) -> None:
    place = {"text": str(workspace.root / "a.txt")}
    match = {"path": place, "lines": {"text": "of another file\n"}, "line_number": 1}
    records = [("begin", {"path": place}), ("match", match), ("end", {"path": place, "binary_offset": None})]
    (workspace.root.parent / "out").write_text("".join(json.dumps({"type": t, "data": d}) + "\n" for t, d in records))
    lying = workspace.root.parent / "lying-rg"
    lying.write_text(f"#!/bin/sh\ncat {workspace.root.parent}/out\n")
    lying.chmod(0o755)
    grep = searcher(workspace, str(lying))
    assert await grep("x") == "[no match]" and await grep("x", output_mode="count") == "a.txt:1"
    (workspace.root / "a.txt").unlink()
    (workspace.root / "a.txt").symlink_to("README.md")
    assert await grep("x", output_mode="count") == "[no match]", "a link was swapped in"
