"""Calls over JSON-RPC lines, with a program that answers as it was told to."""

import json
import sys

import pytest

from treadle.conform.kit import Broken, Candidate
from treadle.conform.rpc import Caller, refusal

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
