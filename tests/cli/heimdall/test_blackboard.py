"""heimdall-blackboard: facts that one agent finds out and all others read."""

import json

from tests.coordination.conftest import Run


def test_a_fact_is_kept_listed_and_forgotten(heimdall: Run) -> None:
    assert heimdall("blackboard", "set", "port", "5173").stdout == "port = 5173\n"
    heimdall("blackboard", "set", "note", "a\tb")
    assert heimdall("blackboard", "get", "port").stdout == "5173\n"
    assert heimdall("blackboard", "list").stdout == "port\t5173\nnote\ta\\tb\n"
    assert json.loads(heimdall("blackboard", "list", "--json").stdout) == {"port": "5173", "note": "a\tb"}
    assert heimdall("blackboard", "del", "port").stdout == "deleted port\n"
    assert heimdall("blackboard", "get", "port").returncode == 1
    assert heimdall("blackboard", "set", "port").returncode == 2


def test_bytes_that_are_no_text_come_back_as_they_went_in(installed: Run) -> None:
    assert installed("blackboard", "set", "k", "\udcff\udcfe").returncode == 0
    assert installed("blackboard", "get", "k").stdout == "\udcff\udcfe\n"
