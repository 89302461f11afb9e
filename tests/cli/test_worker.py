"""`treadle worker` as a person meets it; programs meet it as `treadle-worker`, in test_worker_entry.py."""

import json

import pytest

from tests.installed import treadle as installed


@pytest.mark.parametrize("options", [(), ("--no-sandbox",), ("--network", "none")])
def test_it_answers_and_ends_well(options: tuple[str, ...]) -> None:
    done = installed("worker", *options, input='{"type":"shutdown","id":"3"}\n')
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["id"] == "3"


def test_an_agent_that_is_not_known_is_named_and_nothing_is_said_on_stdout() -> None:
    done = installed("worker", "--agent", "no-such-agent")
    assert (done.returncode, done.stdout) == (2, "") and "no-such-agent" in done.stderr
