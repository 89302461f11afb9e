"""`treadle diff`: what the program of a terminal with a worktree has changed there."""

import os

from tests.cli.terminal.shells import Shell


def test_a_terminal_without_a_worktree_has_nothing_to_show(shell: Shell) -> None:
    shell("run", "--detach", "--id", "plain", "--", "sleep", "100")
    assert "no worktree of its own" in shell.run("diff", "plain").stderr
    done = shell.run("run", "--worktree", "--detach", "--", "sleep", "100")
    assert done.returncode == 1 and "not in a git repository" in done.stderr
    assert not os.path.exists(shell.directory.parent / "worktrees")
