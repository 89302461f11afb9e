"""`treadle diff`: what the program of a terminal with a worktree has changed there."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Here, Shell
from tests.workspace.repositories import make
from treadle.terminal import worktree
from treadle.terminal.settings import TerminalSettings


def test_a_terminal_without_a_worktree_has_nothing_to_show(shell: Shell) -> None:
    shell("run", "--detach", "--id", "plain", "--", "sleep", "100")
    assert "no worktree of its own" in shell.run("diff", "plain").stderr
    done = shell.run("run", "--worktree", "--detach", "--", "sleep", "100")
    assert done.returncode == 1 and "not in a git repository" in done.stderr
    assert not os.path.exists(shell.directory.parent / "worktrees")


def test_the_patch_is_shown_as_it_is_in_colours_or_as_a_list(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TerminalSettings()
    settings.workdir = make(tmp_path / "r").top
    root = Path(worktree.make("w", settings).root)
    (root / "a.txt").write_text("two\n")
    (root / "b.txt").write_bytes(b"\xff\x1b[31m\n")
    here.ended("w", workdir=str(root))
    patch = here("diff", "w")
    assert "\n-one\n+two\n" in patch and patch.startswith("diff --git a/a.txt b/a.txt\n")
    assert here("diff", "w", "--stat") == "M  a.txt\nA  b.txt\n"
    found = json.loads(here("diff", "w", "--json", "--stat"))
    assert [(each["kind"], each["path"], each["old_path"]) for each in found["changes"]] == [
        ("modified", "a.txt", None),
        ("added", "b.txt", None),
    ]
    assert found["patch"].startswith(patch[:40]) and "\x1b" not in here("diff", "w").partition("b.txt")[0]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    coloured = here("diff", "w").splitlines()
    assert coloured[0].startswith("\x1b[1mdiff ") and coloured[0].endswith("\x1b[0m")
    assert "\x1b[31m-one\x1b[0m" in coloured and "\x1b[32m+two\x1b[0m" in coloured
    assert any(line.startswith("\x1b[36m@@") for line in coloured) and "\x1b[1m--- a/a.txt\x1b[0m" in coloured
    assert not any("\x1b[31m\x1b" in line for line in coloured)
    assert here.run("diff")[0] == 2
