from pathlib import Path

import pytest

from tests.agent.tools.workspace import Workspace


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


async def test_links_are_not_followed_out_or_round(workspace: Workspace) -> None:
    workspace.write("real.txt", "")
    (workspace.root / "out").symlink_to("/etc")
    (workspace.root / "loop").symlink_to(".")
    assert await found(workspace, "**") == ["real.txt"]


async def test_what_may_not_be_read_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "hiding").mkdir()
    workspace = Workspace(tmp_path / "hiding", hidden=lambda path: "/secrets/" in path)
    workspace.write("secrets/key", "")
    workspace.write("open", "")
    assert await workspace.run("glob", pattern="**") == "open"
