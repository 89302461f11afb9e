"""`treadle ps` as a person and as a program read it."""

import json
import os

from click.testing import CliRunner

from tests.io.process.trees import hostile
from tests.terminal.support import until
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


def test_a_command_that_has_ended_and_left_others_has_no_number(mark: str) -> None:
    with tree.spawn(["sh", "-c", "sleep 100 & exit 0"]):
        until(lambda: not json.loads(run("--json"))[0]["running"])
        row = run().splitlines()[1].split()
        assert row[2] == "-" and row[4] == "1"


def test_a_program_gets_all_of_it(mark: str) -> None:
    started = hostile("daemon", "bomb")
    (record,) = json.loads(run("--json"))
    assert (record["pid"], record["owner"], record["reaper"]) == (started.pid, os.getpid(), started.reaper)
    assert (record["processes"], record["running"], record["keeper"]) == (52, True, own.pid)
    assert record["owner_name"] and record["age_seconds"] >= 0 and record["started"] > 0
    assert record["command"][-2:] == ["daemon", "bomb"] and record["rss_bytes"] > 0
    started.stop(0)


def test_what_a_command_line_holds_cannot_reach_the_terminal(mark: str) -> None:
    with tree.spawn(["sh", "-c", "exec sleep 100", "\x1b[2J\n"]):
        assert "\x1b" not in run() and len(run().splitlines()) == 2
