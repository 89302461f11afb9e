"""`treadle ps` as a person and as a program read it."""

import os

from click.testing import CliRunner

from treadle.cli.doctor import ps
from treadle.io.process import tree
from treadle.io.process.tree import own


def run(*arguments: str) -> str:
    result = CliRunner().invoke(ps, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_a_tree_is_a_row(mark: str) -> None:
    with tree.spawn(["sleep", "100"]) as started:
        head, row = run().splitlines()
        assert head.split() == ["OWNER", "KEEPER", "PID", "AGE", "PROCS", "RSS", "COMMAND"]
        fields = row.split()
        assert fields[:3] == [str(os.getpid()), str(own.pid), str(started.pid)]
        assert fields[4] == "1" and row.endswith("sleep 100")


def test_what_a_command_line_holds_cannot_reach_the_terminal(mark: str) -> None:
    with tree.spawn(["sh", "-c", "exec sleep 100", "\x1b[2J\n"]):
        assert "\x1b" not in run() and len(run().splitlines()) == 2
