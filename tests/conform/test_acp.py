"""The clauses for an ACP agent: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform import inside as programs
from tests.conform.conftest import broken, candidate, clauses, kit, ruling, sections
from tests.conform.inside import inside
from treadle.conform.kit import judge

REFUSED = '{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"no"}}\n'
DONE = '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}\n'
UPDATE = '"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"more"}}'
MORE = f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s0",{UPDATE}}}}}\n'
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
    (
        "capabilities are a list",
        {"where": {"result": {"protocolVersion": "*"}}, "set": {"result.agentCapabilities": []}},
        "answered with protocol version 1",
    ),
    *(
        (
            f"version {version} for a later one",
            {"where": {"result": {"protocolVersion": "*"}}, "set": {"result.protocolVersion": version}},
            "a client of a later version",
        )
        for version in (0, True, "1")
    ),
    (
        "a session without an id",
        {"where": {"result": {"sessionId": "*"}}, "set": {"result.sessionId": ""}},
        "an id of its own",
    ),
    *(
        (
            f"{words}, and it is not",
            {"where": {"error": {"code": -32602}}, "set": {"error": None, "result": {}}},
            words,
        )
        for words in ("without a directory is refused", "does not exist is refused", "without content is refused")
    ),
    (
        "text after the response",
        {"where": {"result": {"stopReason": "*"}}, "after": MORE},
        "the answer's text comes",
    ),
    (
        "another text",
        {"where": {"method": "session/update"}, "set": {"params.update.content.text": "x"}},
        "the answer's text comes",
    ),
    (
        "an update of no kind",
        {"where": {"method": "session/update"}, "set": {"params.update.sessionUpdate": None}},
        "names its session",
    ),
    ("a second prompt is refused", {"where": {"id": 4}, "set": {"result.stopReason": "refusal"}}, "a second prompt"),
    ("a failed model goes unnoticed", {"where": {"error": {"code": -32603}}, "raw": DONE}, "a model that fails"),
    (
        "a cancelled prompt is an error",
        {"where": {"result": {"stopReason": "cancelled"}}, "raw": REFUSED % 3},
        "session/cancel ends the running prompt",
    ),
    ("nothing after a cancel", {"where": {"id": 4}, "raw": REFUSED % 4}, "the session goes on"),
    (
        "a cancel counts for the next prompt",
        {"where": {"result": {"stopReason": "*"}}, "set": {"result.stopReason": "cancelled"}},
        "without a running prompt",
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
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str) -> None:
    assert await broken("acp", words, inside(programs.acp, spoil))


@pytest.mark.parametrize("sentence", clauses("acp"))
async def test_a_right_program_of_another_keeps(sentence: str) -> None:
    found = await ruling("acp", sentence, inside(programs.acp))
    assert found.outcome == "kept", found.seen


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("acp") == {"initialize and sessions", "session/prompt", "session/cancel", "JSON-RPC"}


@pytest.mark.parametrize(
    ("spoil", "words", "why"),
    [
        ({"where": {"id": 2}, "raw": REFUSED % 2}, "a stop reason of the protocol", "session/new was refused: "),
        ({"where": {"id": 3}, "raw": REFUSED % 3}, "a stop reason of the protocol", "it got no answer from the model"),
    ],
)
async def test_what_does_not_apply_is_not_tried(spoil: dict[str, Any], words: str, why: str) -> None:
    (found,) = await judge(kit("acp"), inside(programs.acp, spoil), only=words)
    assert found.outcome == "untried" and found.seen.startswith(why)
