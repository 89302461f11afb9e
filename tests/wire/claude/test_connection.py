"""Who sends what to Claude Code; the lines themselves are tested in test_records.py."""

import json

import pytest

from treadle.errors import LocalProtocolError, RemoteProtocolError
from treadle.wire.claude.connection import Connection
from treadle.wire.claude.records import Assistant, UnknownRecord, User


def test_a_prompt_arrives_as_it_was_sent() -> None:
    prompt = User(message={"role": "user", "content": "hello"}, uuid="u1")
    assert Connection("agent").receive(Connection("host").send(prompt)) == [prompt]


def test_what_a_later_version_says_is_passed_on_whole_and_may_be_sent_again() -> None:
    line = {"type": "dream", "of": ["sheep"]}
    [strange] = Connection("host").receive(json.dumps(line).encode() + b"\n")
    assert isinstance(strange, UnknownRecord)
    assert json.loads(Connection("agent").send(strange)) == line


def test_only_the_agent_speaks_for_the_model() -> None:
    with pytest.raises(LocalProtocolError, match="a host does not send assistant"):
        Connection("host").send(Assistant(message={"content": []}))


def test_a_bad_line_costs_that_line_only() -> None:
    bad, good = Connection("host").receive(b'nonsense\n{"type":"assistant","message":{"content":[]}}\n')
    assert isinstance(bad, RemoteProtocolError) and isinstance(good, Assistant)
