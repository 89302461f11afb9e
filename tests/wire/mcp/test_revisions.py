"""How a revision is agreed on, and what results look like."""

import json
from typing import Any

import pytest

from treadle.wire.common.jsonrpc import Fault
from treadle.wire.mcp.revisions import META, REVISIONS, STATELESS, agreed, done, failed, stateless, welcome


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
