"""`treadle worker` as a person meets it; programs meet it as `treadle-worker`, in test_worker_entry.py."""

import json

import pytest
from click.testing import CliRunner

from tests.installed import treadle as installed
from treadle.cli.root import treadle


def test_help_shows_how_to_try_it_by_hand() -> None:
    shown = " ".join(CliRunner().invoke(treadle, ["worker", "--help"]).output.split())
    for word in ('{"type":"init"', "treadle worker", "--agent", "HEDDLE_BASE_URL", "treadle docs worker-protocol"):
        assert word in shown


@pytest.mark.parametrize("options", [(), ("--no-sandbox",), ("--network", "none")])
def test_it_answers_and_ends_well(options: tuple[str, ...]) -> None:
    done = installed("worker", *options, input='{"type":"shutdown","id":"3"}\n')
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["id"] == "3"


def test_an_agent_that_is_not_known_is_named_and_nothing_is_said_on_stdout() -> None:
    done = installed("worker", "--agent", "no-such-agent")
    assert (done.returncode, done.stdout) == (2, "") and "no-such-agent" in done.stderr
