"""Calls over JSON-RPC lines, with a program that answers as it was told to."""

import json
import sys

import pytest

from tests.conform import inside as programs
from tests.conform.inside import inside
from treadle.conform.kit import Broken, Candidate, Kit, judge
from treadle.conform.mcp import HELLO
from treadle.conform.rpc import Caller, add_shared, refusal

SCRIPTED = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    for answer in asked.get("params", {}).get("say", []):
        print(json.dumps(answer), flush=True)
"""


async def call(*lines: dict[str, object]) -> object:
    async with Candidate(command=(sys.executable, "-c", SCRIPTED)).started() as peer:
        caller = Caller(peer)
        answer = await caller.call("m", {"say": lines})
        return answer, caller.asked, caller.notices("n")


async def test_the_response_is_found_among_notifications_and_requests_which_are_refused() -> None:
    asks = {"jsonrpc": "2.0", "id": "q", "method": "fs/read"}
    notice = {"jsonrpc": "2.0", "method": "n", "params": {"a": 1}}
    answer, asked, notices = await call(asks, notice, {"id": 1, "result": {}})  # type: ignore[misc]
    assert (answer, asked, notices) == ({"id": 1, "result": {}}, ["fs/read"], [{"a": 1}])


@pytest.mark.parametrize(
    "line", [{"id": 2, "result": {}}, {"id": True, "result": {}}, {"id": 1}, {"id": 1, "result": {}, "error": {}}]
)
async def test_a_response_to_something_else_or_with_neither_or_both_is_broken(line: dict[str, object]) -> None:
    with pytest.raises(Broken):
        await call(line)


def test_a_refusal_is_a_whole_error_with_its_code() -> None:
    assert json.loads(refusal({"error": {"code": -32601, "message": "no"}}, -32601)) == {
        "code": -32601,
        "message": "no",
    }
    for line in ({"result": {}}, {"error": {"code": "x", "message": "no"}}, {"error": {"code": -32601}}):
        with pytest.raises(Broken):
            refusal(line)
    with pytest.raises(Broken, match="the code is not -32602"):
        refusal({"error": {"code": 1, "message": "no"}}, -32602)


def shared() -> Kit:
    made = Kit(protocol="rpc", specification="", clauses=[])
    add_shared(made, HELLO)
    return made


async def test_a_right_program_keeps_the_clauses_of_json_rpc_and_what_was_seen_is_told() -> None:
    found = await judge(shared(), inside(programs.mcp))
    assert [(one.section, one.outcome) for one in found] == [("JSON-RPC", "kept")] * len(found)
    refused = '{"code": -32601, "message": "refused"}'
    assert [one.seen for one in found] == [
        *('"54"', "1 messages", refused, "none", refused, refused, '[0, "b"]', refused),
        *("accepted", "exit code 0"),
    ]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ({"where": {"id": "54"}, "set": {"id": 1}}, "also when that is a string"),
        ({"where": {"id": 1}, "set": {"jsonrpc": "1.0"}}, "it is JSON-RPC 2.0"),
        ({"where": {"error": "*"}, "set": {"error.code": -32600}}, "an unknown method is refused"),
        ({"where": {"id": 2}, "before": '{"jsonrpc":"2.0","id":null,"result":{}}\n'}, "an unknown notification"),
        ({"where": {"id": 2}, "set": {"error": None, "result": {}}}, "an unknown notification"),
        ({"where": {"error": {"code": -32700}}, "exit": 1}, "a line that is no JSON"),
        ({"where": {"id": 2}, "set": {"error": None, "result": {}}}, "a line that is no JSON"),
        ({"where": {"id": 1}, "raw": '{"jsonrpc":"2.0","id":1,"error":{}}\n'}, "unknown fields are ignored"),
        ({"where": {"id": 1}, "raw": '{"jsonrpc":"2.0","id":1,"error":{}}\n'}, "ends when its input ends"),
    ],
)
async def test_a_fault_of_json_rpc_is_found(spoil: dict[str, object], words: str) -> None:
    assert [one.outcome for one in await judge(shared(), inside(programs.mcp, spoil), only=words)] == ["broken"]


async def test_a_result_that_is_none_is_shown_with_its_method() -> None:
    for raw, said in (('"error":{"code":1}', '{"code": 1}'), ('"result":[]', '{"id": 1, "result": []}')):
        async with inside(programs.mcp, {"where": {"id": 1}, "raw": f'{{"id":1,{raw}}}\n'}).started() as peer:
            with pytest.raises(Broken) as shown:
                await Caller(peer).result("initialize", HELLO)
            assert str(shown.value) == f"initialize failed: {said}"
