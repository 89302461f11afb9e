"""What the real TypeScript compiler and cargo say after an edit, confined as commands are."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.agent.test_diagnostics import wrote
from tests.conftest import need
from tests.drivers.programs import CACHE, HOME, fetch
from treadle.agent import hooks
from treadle.agent.tools.file_tools import Diagnostics
from treadle.session import Confinement


@pytest.fixture(autouse=True)
def enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "SECONDS", 120.0)


async def said_after(edited: Path, project: Path) -> str:
    warnings: list[str] = []
    confinement = Confinement(write=(str(project),))
    checks = Diagnostics(cwd=str(project), env=os.environ, warn=warnings.append, confinement=lambda: confinement)
    said = await checks.after(wrote(edited))
    assert warnings == []
    return said


async def test_the_compiler_of_a_typescript_project_names_the_wrong_type(tmp_path: Path) -> None:
    need("node")
    fetch("typescript", "typescript@5.9.3")
    shutil.copytree(CACHE / "typescript" / "node_modules", tmp_path / "node_modules", symlinks=True)
    (tmp_path / "tsconfig.json").write_text('{"compilerOptions": {"strict": true}, "files": ["a.ts"]}')
    edited = tmp_path / "a.ts"
    edited.write_text("export const total: number = 'one';\n")
    assert "[tsc says:]\na.ts(1,14): error TS2322" in await said_after(edited, tmp_path)
    edited.write_text("export const total: number = 1;\n")
    assert await said_after(edited, tmp_path) == ""


async def test_cargo_names_the_wrong_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("cargo")
    monkeypatch.setenv("HOME", str(HOME))  # where rustup has it
    subprocess.run(["cargo", "init", "-q", "--lib", "--vcs", "none", "--name", "total", tmp_path], check=True)
    edited = tmp_path / "src" / "lib.rs"
    edited.write_text('pub fn total() -> i32 { "one" }\n')
    assert "[cargo says:]\nsrc/lib.rs:1:25: error[E0308]" in await said_after(edited, tmp_path)
    edited.write_text("pub fn total() -> i32 { 1 }\n")
    assert await said_after(edited, tmp_path) == ""
