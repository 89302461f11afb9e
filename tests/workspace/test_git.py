"""How git is started: without the person's environment, and with git's own words when it fails."""

from pathlib import Path

import pytest

from tests.workspace.repositories import make
from treadle.errors import WorkspaceError
from treadle.workspace.git import create, environment


def test_no_variable_points_git_at_another_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "evil")
    found = {name for name in environment() if name.startswith("GIT_")}
    assert found == {"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS"}


def test_a_failure_says_what_git_said(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"git clone failed.*does not exist"):
        create("clone", "--quiet", str(tmp_path / "nothing"), str(tmp_path / "copy"), cwd=str(tmp_path))


def test_hooks_of_a_template_do_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = tmp_path / "template" / "hooks" / "post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    settings = tmp_path / "config" / "git" / "config"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[init]\n\ttemplateDir = {tmp_path}/template\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    create("clone", "--quiet", make(tmp_path / "repo").top, str(tmp_path / "copy"), cwd=str(tmp_path))
    assert (tmp_path / "copy" / ".git" / "hooks" / "post-checkout").exists() and not (tmp_path / "ran").exists()
