"""What checkers say after an edit: only those that the project uses and that are here, and never for long."""

import sys
from pathlib import Path

import pytest

from treadle.agent.tools import file_tools
from treadle.agent.tools.file_tools import Diagnostics
from treadle.session import Access, Confinement

VENV = str(Path(sys.executable).parent)


def wrote(*paths: Path) -> Access:
    return Access(tool="edit_file", kind="write", paths=tuple(map(str, paths)))


def checks(
    cwd: Path, warnings: list[str] | None = None, path: str = VENV, confinement: Confinement | None = None
) -> Diagnostics:
    env = {"PATH": f"{path}:/usr/bin:/bin", "HOME": str(cwd)}
    warn = (warnings if warnings is not None else []).append
    return Diagnostics(cwd=str(cwd), env=env, warn=warn, confinement=lambda: confinement)


def program(place: Path, name: str, body: str) -> None:
    place.mkdir(exist_ok=True)
    (place / name).write_text(f"#!/bin/sh\n{body}\n")
    (place / name).chmod(0o755)


async def test_the_real_ruff_names_what_is_wrong_with_the_changed_file_only(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n")
    (tmp_path / "a.py").write_text("import os\n")
    (tmp_path / "b.py").write_text("import sys\n")
    said = await checks(tmp_path).after(wrote(tmp_path / "a.py"))
    assert said.startswith("\n[ruff says:]\n") and "a.py:1:8: F401" in said and "b.py" not in said
    (tmp_path / "a.py").write_text("x = 1\n")
    assert await checks(tmp_path).after(wrote(tmp_path / "a.py")) == ""
    assert (tmp_path / "b.py").read_text() == "import sys\n"


async def test_a_project_that_does_not_use_it_is_not_checked(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "a.py").write_text("import os\n")
    assert await checks(tmp_path).after(wrote(tmp_path / "a.py")) == ""
    (tmp_path / "ruff.toml").write_text("")
    assert await checks(tmp_path, path="/nowhere").after(wrote(tmp_path / "a.py")) == "", "it is not installed"
    assert await checks(tmp_path).after(Access(tool="bash", kind="execute", paths=(str(tmp_path / "a.py"),))) == ""


async def test_one_that_takes_too_long_is_stopped_and_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "tsc", f"echo x >> {tmp_path}/runs; exec sleep 1000")
    (tmp_path / "tsconfig.json").write_text("{}")
    (tmp_path / "a.ts").write_text("")
    monkeypatch.setattr(file_tools, "SECONDS", 0.5)
    warnings: list[str] = []
    made = checks(tmp_path, warnings, str(tmp_path / "bin"))
    assert [await made.after(wrote(tmp_path / "a.ts")) for _ in range(3)] == ["", "", ""]
    assert warnings == ["tsc is not asked after edits any more in this session: it took more than 0.5 s"]


async def test_one_that_cannot_be_run_says_nothing_to_the_model_and_is_not_asked_again(tmp_path: Path) -> None:
    program(tmp_path / "bin", "tsc", "exec /nowhere/node tsc.js 2>&1")
    (tmp_path / "tsconfig.json").write_text("{}")
    (tmp_path / "a.ts").write_text("")
    warnings: list[str] = []
    made = checks(tmp_path, warnings, str(tmp_path / "bin"))
    assert [await made.after(wrote(tmp_path / "a.ts")) for _ in range(2)] == ["", ""]
    (warning,) = warnings
    assert warning.startswith("tsc is not asked after edits any more") and "/nowhere/node" in warning


async def test_a_checker_in_the_project_is_run_only_where_commands_are_confined(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    program(tmp_path / "node_modules" / ".bin", "tsc", "echo the project\\'s own; exit 2")
    program(tmp_path / "bin", "tsc", "echo another; exit 2")
    (tmp_path / "tsconfig.json").write_text("{}")
    (tmp_path / "a.ts").write_text("")
    made = checks(tmp_path, path=str(tmp_path / "bin"))
    assert await made.after(wrote(tmp_path / "a.ts")) == "\n[tsc says:]\nanother"
    confined = checks(tmp_path, path=str(tmp_path / "bin"), confinement=Confinement(write=(str(tmp_path),)))
    assert await confined.after(wrote(tmp_path / "a.ts")) == "\n[tsc says:]\nthe project's own"


async def test_much_is_cut_and_what_runs_the_projects_code_needs_a_sandbox(tmp_path: Path) -> None:
    program(tmp_path / "bin", "tsc", "seq 100; exit 2")
    program(tmp_path / "bin", "cargo", f"touch {tmp_path}/ran; echo bad; exit 1")
    for name in ("tsconfig.json", "Cargo.toml", "a.ts", "a.rs"):
        (tmp_path / name).write_text("")
    made = checks(tmp_path, path=str(tmp_path / "bin"))
    said = await made.after(wrote(tmp_path / "a.ts"))
    assert said.splitlines()[1:3] == ["[tsc says:]", "1"] and said.endswith("\n30\n[70 more lines]")
    assert await made.after(wrote(tmp_path / "a.rs")) == "" and not (tmp_path / "ran").exists()
