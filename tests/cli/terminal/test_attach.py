"""`treadle attach`: which terminal is joined, and which is not."""

from tests.cli.terminal.shells import Shell
from tests.installed import TREADLE
from tests.terminal.support import until


def test_attach_alone_joins_the_only_one_and_refuses_to_guess(shell: Shell) -> None:
    assert "No active sessions" in shell.run("attach").stderr
    shell("run", "--detach", "--id", "x", "--", "cat")
    assert "attach needs a terminal" in shell.run("attach").stderr
    shell("run", "--detach", "--id", "y", "--", "cat")
    done = shell.run("attach")
    assert done.returncode == 2 and "x, y" in done.stderr


def test_a_terminal_is_not_attached_to_itself(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--linger", "60", "--", TREADLE, "attach", "x")
    until(lambda: "this is the terminal x" in shell.written("x"))
