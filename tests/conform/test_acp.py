"""The clauses for an ACP agent: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform.conftest import broken, candidate, clauses, ruling, sections

FAULTS: list[tuple[str, dict[str, Any], str]] = [
    (
        "another protocol version",
        {"where": {"result": {"protocolVersion": "*"}}, "set": {"result.protocolVersion": 2}},
        "answered with protocol version 1",
    ),
    (
        "the client's version is echoed",
        {"where": {"result": {"protocolVersion": "*"}}, "set": {"result.protocolVersion": 999}},
        "a client of a later version",
    ),
    (
        "two sessions have one id",
        {"where": {"result": {"sessionId": "*"}}, "set": {"result.sessionId": "s"}},
        "an id of its own",
    ),
    (
        "an unknown stop reason",
        {"where": {"result": {"stopReason": "*"}}, "set": {"result.stopReason": "bored"}},
        "a stop reason of the protocol",
    ),
    (
        "a cancelled prompt ends as if done",
        {"where": {"result": {"stopReason": "cancelled"}}, "set": {"result.stopReason": "end_turn"}},
        "session/cancel ends the running prompt",
    ),
    ("cancel is ignored", {"ignore": {"method": "session/cancel"}}, "session/cancel ends the running prompt"),
    (
        "an update of another session",
        {"where": {"method": "session/update"}, "set": {"params.sessionId": "z"}},
        "names its session",
    ),
    (
        "the text is lost",
        {"where": {"params": {"update": {"sessionUpdate": "agent_message_chunk"}}}, "drop": True},
        "the answer's text comes",
    ),
    (
        "the client's files are asked for",
        {
            "where": {"result": {"stopReason": "*"}},
            "before": '{"jsonrpc":"2.0","id":"f","method":"fs/read_text_file","params":{}}\n',
        },
        "neither files nor terminals",
    ),
    (
        "an unknown method is answered",
        {"where": {"error": {"code": -32601}}, "set": {"error": None, "result": {}}},
        "an unknown method is refused",
    ),
    ("ids become numbers", {"where": {"id": "an-id"}, "set": {"id": 7}}, "also when that is a string"),
    (
        "it does not say that it is JSON-RPC",
        {"where": {"jsonrpc": "2.0"}, "set": {"jsonrpc": None}},
        "it is JSON-RPC 2.0",
    ),
    ("a bad line ends it", {"where": {"error": {"code": -32700}}, "exit": 1}, "a line that is no JSON"),
]


@pytest.mark.parametrize("sentence", clauses("acp"))
async def test_our_own_keeps(sentence: str, tmp_path: Path) -> None:
    found = await ruling("acp", sentence, candidate("acp", tmp_path))
    assert found.outcome == "kept", found.seen


@pytest.mark.parametrize(("fault", "spoil", "words"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str, tmp_path: Path) -> None:
    patience = 10.0 if "ignore" in spoil else 60.0
    assert await broken("acp", words, candidate("acp", tmp_path, spoil, patience))


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("acp") == {"initialize and sessions", "session/prompt", "session/cancel", "JSON-RPC"}
