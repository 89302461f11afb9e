"""A typed answer is what the tool has accepted, whichever way the agent reaches the tool."""

import json
import subprocess
import sys
from typing import Any

import pytest

from treadle.errors import ToolError
from treadle.events import ToolEnded, ToolStarted
from treadle.fleet.run.typed_answers import TypedAnswer, tool
from treadle.session import SessionSpec

REVIEW = {"verdict": "changes", "comments": [{"text": "Say more.", "path": "a.py", "line": 3}]}


def seen(typed: TypedAnswer, args: Any, *, name: str = "give_answer", ok: bool = True) -> Any:
    typed.look(ToolStarted(call="c", name=name, args=args))
    typed.look(ToolEnded(call="c", name=name, result="", ok=ok))
    return typed.given


async def test_the_tool_refuses_what_is_no_such_answer_and_says_why() -> None:
    offered = tool("review")
    assert offered.parameters["required"] == ["verdict"]
    assert "Accepted" in str(await offered.call(REVIEW))
    for wrong, told in (
        ({"verdict": "maybe"}, "maybe"),
        ({"verdict": "changes"}, "does not say which"),
        ({}, "verdict"),
    ):
        with pytest.raises(ToolError, match=told):
            await offered.call(wrong)
    with pytest.raises(ToolError, match="longer than"):
        await offered.call({"verdict": "changes", "comments": [{"text": "x" * 200_000}]})


@pytest.mark.parametrize("name", ["give_answer", "mcp__treadle__give_answer", "treadle_give_answer"])
def test_the_latest_accepted_call_counts(name: str) -> None:
    typed = TypedAnswer("review", {})
    assert seen(typed, {"verdict": "approve"}, name=name, ok=False) is None
    assert seen(typed, {"verdict": "perhaps"}, name=name) is None, "it is checked here too"
    assert seen(typed, json.dumps(REVIEW), name=name) == REVIEW, "some agents report arguments as text"
    assert seen(typed, {"verdict": "approve"}, name=name)["verdict"] == "approve"
    assert seen(typed, {"verdict": "changes"}, name=name)["verdict"] == "approve"


def test_other_tools_are_no_answers_and_an_order_without_one_takes_none() -> None:
    assert seen(TypedAnswer("review", {}), REVIEW, name="bash") is None
    assert seen(TypedAnswer("", {}), REVIEW) is None


def test_the_tool_is_offered_in_the_way_that_the_agent_takes() -> None:
    spec = SessionSpec(cwd="/")
    assert (
        TypedAnswer("plan", {"own_tools": "native", "servers": "native"}).offered(spec).program.tools[0].kind == "other"
    )
    assert (
        TypedAnswer("plan", {"own_tools": "unsupported", "servers": "native"})
        .offered(spec)
        .tools.servers["treadle"]["args"][-1]
        == "plan"
    )
    assert TypedAnswer("plan", {}).offered(spec) == TypedAnswer("", {"servers": "native"}).offered(spec) == spec


def test_as_a_server_it_lists_the_tool_and_checks_what_it_is_given() -> None:
    calls = [{"name": "give_answer", "arguments": each} for each in (REVIEW, {"verdict": "maybe"})]
    asked = [
        ("initialize", {"protocolVersion": "2025-06-18"}),
        ("tools/list", {}),
        *(("tools/call", each) for each in calls),
    ]
    lines = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(asked)
    ]
    lines.insert(1, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    given = "\n".join([json.dumps(each) for each in lines] + ["no json", "[]"]) + "\n"
    server = TypedAnswer("review", {"servers": "native"}).offered(SessionSpec(cwd="/")).tools.servers["treadle"]
    assert server["command"] == sys.executable
    done = subprocess.run([sys.executable, *server["args"]], input=given, capture_output=True, text=True, timeout=60)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["id"] for each in found] == [0, 1, 2, 3], done.stderr
    assert [each["name"] for each in found[1]["result"]["tools"]] == ["give_answer"]
    assert [each["result"]["isError"] for each in found[2:]] == [False, True]


def test_a_call_counts_when_it_has_ended_well_and_by_its_own_number() -> None:
    typed = TypedAnswer("review", {})
    typed.look(ToolStarted(call="a", name="give_answer", args={"verdict": "approve"}))
    assert typed.given is None
    typed.look(ToolEnded(call="b", name="give_answer", result="", ok=True))
    assert typed.given is None
    typed.look(ToolEnded(call="a", name="give_answer", result="", ok=True))
    assert typed.given["verdict"] == "approve"
    typed.look(ToolStarted(call="a", name="give_answer", args="{no json"))
    typed.look(ToolEnded(call="a", name="give_answer", result="", ok=True))
    assert typed.given["verdict"] == "approve"
