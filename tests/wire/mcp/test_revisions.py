"""How a revision is agreed on, and what results look like."""

import json
from typing import Any

import pytest

from treadle.wire.common.jsonrpc import Fault
from treadle.wire.mcp.revisions import META, REVISIONS, STATELESS, agreed, dispatch, done, failed, stateless, welcome


@pytest.mark.parametrize(
    ("asked", "revision"),
    [(None, "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2031-01-01", REVISIONS[-1]), (7, REVISIONS[-1])],
)
def test_a_revision_is_the_clients_when_we_know_it_else_our_newest(asked: Any, revision: str) -> None:
    assert agreed(asked) == revision
    assert welcome(asked, "n", "1", "i")["protocolVersion"] == revision


def test_a_request_without_a_handshake_says_its_revision() -> None:
    meta = {f"{META}protocolVersion": STATELESS}
    assert stateless({}) is None and stateless({"_meta": {"progressToken": 1}}) is None
    assert stateless({"_meta": meta}) == meta
    with pytest.raises(Fault) as fault:
        stateless({"_meta": {f"{META}protocolVersion": "2031-01-01"}})
    assert fault.value.data == {"supported": [STATELESS], "requested": "2031-01-01"}


def test_a_result_is_there_for_programs_and_for_models() -> None:
    result = done({"a": 1})
    assert result["structuredContent"] == {"a": 1} and json.loads(result["content"][0]["text"]) == {"a": 1}
    assert done({"a": 1}, "in words")["content"][0]["text"] == "in words"
    assert failed({"error": "no"})["isError"] is True and "structuredContent" not in failed({"error": "no"})


def test_each_method_of_a_server_of_tools_has_its_answer() -> None:
    def asked(method: str) -> Any:
        return dispatch(
            method,
            {"a": 1},
            initialize=lambda given: ("hello", given),
            tools=lambda: [{"name": "t"}],
            call=lambda given: ("called", given),
        )

    assert asked("initialize") == ("hello", {"a": 1}) and asked("tools/call") == ("called", {"a": 1})
    assert asked("tools/list") == {"tools": [{"name": "t"}]}
    assert asked("ping") == asked("notifications/initialized") == {}
    with pytest.raises(Fault) as unknown:
        asked("resources/list")
    assert (unknown.value.code, unknown.value.message) == (-32601, "unknown method: resources/list")


def test_a_welcome_names_the_server_and_what_it_can() -> None:
    plain = welcome(None, "n", "1", "read this")
    assert plain == {
        "protocolVersion": "2024-11-05",
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "n", "version": "1"},
        "instructions": "read this",
    }
    assert welcome(None, "n", "1", "", {"logging": {}})["capabilities"] == {**plain["capabilities"], "logging": {}}
    assert stateless({"_meta": "odd"}) is None and stateless({"_meta": {f"{META}protocolVersion": None}}) is None
    with pytest.raises(Fault) as fault:
        stateless({"_meta": {f"{META}protocolVersion": "x"}})
    assert (fault.value.code, fault.value.message) == (-32022, "unsupported protocol version")
    shown = done({"b": 1, "a": 2})
    assert shown["isError"] is False and shown["content"] == [{"type": "text", "text": '{\n  "a": 2,\n  "b": 1\n}'}]
    assert failed({"b": 1, "a": 2})["content"] == shown["content"] and done({}, "")["content"][0]["text"] == ""
