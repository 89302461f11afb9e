import os
from pathlib import Path

import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.errors import ToolError


async def found(workspace: Workspace, pattern: str, **more: object) -> list[str]:
    return sorted((await workspace.run("glob", pattern=pattern, **more)).split("\n"))


@pytest.fixture
def sources(workspace: Workspace) -> Workspace:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/d.ts", "docs/e.md", ".github/f.yml", "build/g.py"):
        workspace.write(name, "x")
    workspace.write(".gitignore", "build/\n")
    return workspace


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("./*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("**/*.{py,ts}", ["a.py", "src/b.py", "src/d.ts", "src/deep/c.py"]),
        ("src/", ["src/b.py", "src/d.ts", "src/deep/c.py"]),
        ("[a-b].py", ["a.py", "src/b.py"]),
        ("*/?.py", ["src/b.py"]),
        (".github/*", [".github/f.yml"]),
        ("c.py", ["src/deep/c.py"]),
        ("*.rs", ["[no file matches]"]),
    ],
)
async def test_patterns(sources: Workspace, pattern: str, files: list[str]) -> None:
    assert await found(sources, pattern) == files


async def test_ignored_files_are_listed_when_asked_for_or_named(sources: Workspace) -> None:
    assert "build/g.py" in await found(sources, "*.py", include_ignored=True)
    assert await found(sources, "build/*.py") == ["build/g.py"]


async def test_a_path_and_an_absolute_pattern_say_where_to_look(sources: Workspace, tmp_path: Path) -> None:
    assert await found(sources, "*.py", path="src") == ["src/b.py", "src/deep/c.py"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "o.py").write_text("x")
    assert await found(sources, f"{tmp_path}/other/*.py") == [f"{tmp_path}/other/o.py"]
    assert await found(sources, "../other/*.py") == [f"{tmp_path}/other/o.py"]


async def test_what_will_be_touched_is_where_the_pattern_leads(sources: Workspace) -> None:
    (sources.root / "out").symlink_to("/etc")
    tool = toolbox.load("glob")
    for pattern, touched in (("out/**/*.conf", "/etc"), ("src/*", f"{sources.root}/src"), ("*.py", str(sources.root))):
        args = toolbox.decode(tool, f'{{"pattern": "{pattern}"}}')
        assert tool.access(args, sources.context.resolve).paths == (touched,)


async def test_the_newest_comes_first_and_ties_go_by_path(workspace: Workspace) -> None:
    for name, age in (("b", 10), ("a", 10), ("new", 20), ("old", 1)):
        os.utime(workspace.write(name, ""), ns=(0, age))
    assert await workspace.run("glob", pattern="*") == "new\na\nb\nold"


async def test_links_are_not_followed_out_or_round(workspace: Workspace) -> None:
    workspace.write("real.txt", "")
    (workspace.root / "out").symlink_to("/etc")
    (workspace.root / "loop").symlink_to(".")
    assert await found(workspace, "**") == ["real.txt"]


async def test_odd_names_are_shown_on_one_line_and_can_be_read(workspace: Workspace) -> None:
    for name in (b"two\nlines.txt", b"caf\xe9.txt"):
        with open(os.path.join(os.fsencode(workspace.root), name), "w") as file:
            file.write("inside\n")
    names = await found(workspace, "*.txt")
    assert names == [r"caf\xe9.txt", r"two\x0alines.txt"]
    for name in names:
        assert "inside" in await workspace.run("read_file", file_path=name)


async def test_no_directory_there_is_an_error_that_helps(sources: Workspace) -> None:
    with pytest.raises(ToolError, match="did you mean .*src"):
        await sources.run("glob", pattern="*", path="scr")
    with pytest.raises(ToolError, match="not a directory"):
        await sources.run("glob", pattern="*", path="a.py")
    with pytest.raises(ToolError, match="empty"):
        await sources.run("glob", pattern="")


async def test_ten_thousand_files_are_no_trouble(workspace: Workspace) -> None:
    for number in range(100):
        (workspace.root / f"d{number:02}").mkdir()
    seeds = [workspace.write(f"seed{number}", "") for number in range(2)]
    for number in range(10_000):
        os.link(seeds[number % 2], workspace.root / f"d{number % 100:02}" / f"f{number}.txt")
    workspace.write(".gitignore", "*7.txt\n/d42/\n")
    result = await workspace.run("glob", pattern="**/*.txt")
    lines = result.split("\n")
    assert lines[-1] == f"[the {len(lines) - 1:,} newest of 8,900 files; narrow the pattern or the path to see others]"
    assert len(lines) == 1001 and len(result.encode()) <= workspace.context.output_cap


async def test_what_may_not_be_read_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "hiding").mkdir()
    workspace = Workspace(tmp_path / "hiding", hidden=lambda path: "/secrets/" in path)
    workspace.write("secrets/key", "")
    workspace.write("open", "")
    assert await workspace.run("glob", pattern="**") == "open"
