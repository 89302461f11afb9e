"""Hooks in the process of the host."""

import asyncio
from typing import Any

import pytest

from treadle.doors.oneshot.hooks import HostHooks, Registered
from treadle.errors import RemoteError, Unsupported
from treadle.session import HookVerdict, Use
from treadle.settings.claude import TIMEOUT

LS = Use(tool="bash", args={"command": "ls"}, kind="execute", command="ls")


class FakeHost:
    """The host's end: what it was asked, and what it answers to each callback."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[dict[str, Any]] = []
        self.ended: list[str] = []

    async def request(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        answer = self.answers[request["callback_id"]]
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.Event().wait()
        assert isinstance(answer, dict)
        return answer

    async def end_turn(self, reason: str) -> None:
        self.ended.append(reason)

    def hooks(self, **events: Any) -> HostHooks:
        made = HostHooks("/w")
        made.connect(lambda: {"session_id": "s1"}, self.request, self.end_turn)
        made.register(events)
        return made


def group(*callbacks: str, matcher: str | None = None, timeout: float | None = None) -> dict[str, Any]:
    return {"matcher": matcher, "hookCallbackIds": list(callbacks), "timeout": timeout}


def deny(reason: str = "no") -> dict[str, Any]:
    return {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": reason}}


async def pre(hooks: HostHooks, use: Use = LS) -> str | HookVerdict | None:
    called = hooks.program().pre_tool
    assert called is not None
    return await called(use)


async def test_a_deny_blocks_with_its_reason_and_the_host_sees_its_own_names() -> None:
    host = FakeHost(h0=deny("not today"))
    assert await pre(host.hooks(PreToolUse=[group("h0", matcher="Bash")])) == "not today"
    given = host.asked[0]["input"]
    assert host.asked[0]["subtype"] == "hook_callback"
    assert (given["tool_name"], given["tool_input"], given["hook_event_name"]) == ("Bash", LS.args, "PreToolUse")
    assert (given["session_id"], given["cwd"]) == ("s1", "/w")


@pytest.mark.parametrize(
    "said", [{"decision": "block", "reason": "old form"}, {"continue": False, "stopReason": "enough"}]
)
async def test_the_older_forms_block_too(said: dict[str, Any]) -> None:
    host = FakeHost(h0=said)
    assert await pre(host.hooks(PreToolUse=[group("h0")])) in ("old form", "enough")
    assert host.ended == (["enough"] if "continue" in said else [])


async def test_what_does_not_object_lets_it_run() -> None:
    allow = {"hookSpecificOutput": {"permissionDecision": "allow"}}
    assert await pre(FakeHost(h0={}, h1=allow).hooks(PreToolUse=[group("h0", "h1")])) == HookVerdict(decision="allow")
    assert await pre(FakeHost(h0={}).hooks(PreToolUse=[group("h0")])) is None


async def test_of_two_hooks_the_stricter_one_is_followed() -> None:
    allow = {"hookSpecificOutput": {"permissionDecision": "allow"}}
    ask = {"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "look at it"}}
    said = await pre(FakeHost(h0=allow, h1=ask, h2=allow).hooks(PreToolUse=[group("h0", "h1", "h2")]))
    assert said == HookVerdict(decision="ask", reason="look at it")


@pytest.mark.parametrize(
    ("matcher", "called"),
    [
        *(("Bash", True), ("bash", True), ("Write|Bash", True), ("Write", False), ("*", True), ("[", True)),
        *((".", True), ("B.*", True), ("a.h", True), ("^(?!Read)", True), ("Write, Bash", True), ("", True)),
        *(("Bas", False), ("mcp__.*", False), ("!Read", False), ("^(?!Bash)", False), ("^ash", False)),
    ],
)
async def test_a_matcher_chooses_by_the_name_of_the_tool(matcher: str, called: bool) -> None:
    hooks = FakeHost(h0=deny()).hooks(PreToolUse=[group("h0", matcher=matcher)])
    assert (await pre(hooks) is not None) is called


async def test_a_callback_that_fails_or_is_silent_blocks() -> None:
    failing = FakeHost(h0=RemoteError("it raised")).hooks(PreToolUse=[group("h0")])
    assert "it raised" in str(await pre(failing))
    silent = FakeHost(h0=None).hooks(PreToolUse=[group("h0", timeout=0.01)])
    assert "did not answer within" in str(await pre(silent))


async def test_a_hook_may_want_other_arguments() -> None:
    changed = {"hookSpecificOutput": {"updatedInput": {"command": "ls -l"}}}
    said = await pre(FakeHost(h0=changed).hooks(PreToolUse=[group("h0")]))
    assert said == HookVerdict(args={"command": "ls -l"})


async def test_after_a_tool_the_host_may_add_for_the_model_to_read() -> None:
    host = FakeHost(h0={"hookSpecificOutput": {"additionalContext": "mind the gap"}}, h1={})
    called = host.hooks(PostToolUse=[group("h0", "h1")]).program().post_tool
    assert called is not None and await called(LS, "result", True) == "mind the gap"
    assert host.asked[0]["input"]["tool_response"]["stdout"] == "result"


async def test_a_prompt_can_be_refused_or_added_to() -> None:
    adds = FakeHost(h0={"hookSpecificOutput": {"additionalContext": "It is Monday."}})
    assert await adds.hooks(UserPromptSubmit=[group("h0")]).prompted("hi") == (None, "It is Monday.\n\n")
    refuses = FakeHost(h0={"decision": "block", "reason": "rude"})
    assert await refuses.hooks(UserPromptSubmit=[group("h0")]).prompted("hi") == ("rude", "")


async def test_the_end_of_a_turn_is_told() -> None:
    host = FakeHost(h0={})
    called = host.hooks(Stop=[group("h0")]).program().stop
    assert called is not None
    assert await called("completed", "the answer") is None
    assert host.asked[0]["input"]["last_assistant_message"] == "the answer"


async def test_a_hook_may_want_the_turn_to_go_on_and_is_told_that_it_did() -> None:
    host = FakeHost(h0={"decision": "block", "reason": "and the tests?"}, h1=RemoteError("gone"))
    called = host.hooks(Stop=[group("h0")]).program().stop
    assert called is not None
    assert [await called("completed", "done") for _ in range(2)] == ["and the tests?"] * 2
    assert [asked["input"]["stop_hook_active"] for asked in host.asked] == [False, True]
    host.answers["h0"] = {"continue": False}
    assert await called("completed", "done") is None
    failing = host.hooks(Stop=[group("h1")]).program().stop
    assert failing is not None and await failing("completed", "done") is None


async def test_without_a_host_nothing_is_let_through() -> None:
    hooks = HostHooks("/")
    hooks.register({"PreToolUse": [group("h0")]})
    assert "not connected" in str(await pre(hooks))


async def test_a_failing_tool_is_another_event() -> None:
    host = FakeHost(h0={}, h1={"hookSpecificOutput": {"additionalContext": "try again"}})
    called = host.hooks(PostToolUse=[group("h0")], PostToolUseFailure=[group("h1")]).program().post_tool
    assert called is not None and await called(LS, "it broke", False) == "try again"
    [asked] = host.asked
    assert (asked["input"]["hook_event_name"], asked["input"]["error"]) == ("PostToolUseFailure", "it broke")


@pytest.mark.parametrize(
    ("output", "read"),
    [
        ({"updatedMCPToolOutput": "clean"}, "clean"),
        ({"updatedMCPToolOutput": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"updatedToolOutput": {"stdout": "out", "stderr": "err"}}, "out\nerr"),
    ],
)
async def test_the_host_replaces_what_the_model_reads_of_a_result(output: dict[str, Any], read: str) -> None:
    called = FakeHost(h0={"hookSpecificOutput": output}).hooks(PostToolUse=[group("h0")]).program().post_tool
    assert called is not None
    said = await called(LS, "the secret", True)
    assert isinstance(said, HookVerdict) and said.result == read


async def test_what_is_added_before_a_call_reaches_the_model_with_it() -> None:
    said = await pre(FakeHost(h0={"hookSpecificOutput": {"additionalContext": "mind"}}).hooks(PreToolUse=[group("h0")]))
    assert said == HookVerdict(context="mind")


@pytest.mark.parametrize(
    ("decision", "verdict"),
    [
        ({"behavior": "deny", "message": "not now"}, HookVerdict(decision="deny", reason="not now")),
        ({"behavior": "allow"}, HookVerdict(decision="allow")),
        ({"behavior": "allow", "updatedInput": {"timeout": 2000}}, HookVerdict(decision="allow", args={"timeout": 2})),
    ],
)
async def test_a_hook_answers_a_permission_question(decision: dict[str, Any], verdict: HookVerdict) -> None:
    host = FakeHost(h0={"hookSpecificOutput": {"decision": decision}})
    called = host.hooks(PermissionRequest=[group("h0", matcher="Bash")]).program().event
    assert called is not None
    given = {"tool_name": "bash", "tool_input": {"command": "ls", "background": False, "timeout": None}}
    assert await called("PermissionRequest", given) == verdict
    assert host.asked[0]["input"]["tool_input"] == {"command": "ls"}, "by Claude's names, without what was left out"


async def test_the_call_and_the_subagent_are_named() -> None:
    host = FakeHost(h0={})
    use = Use(tool="bash", args={}, kind="execute", call="c7", agent="agent_1", agent_type="Explore")
    await pre(host.hooks(PreToolUse=[group("h0")]), use)
    given = host.asked[0]["input"]
    assert (host.asked[0]["tool_use_id"], given["tool_use_id"]) == ("c7", "c7")
    assert (given["agent_id"], given["agent_type"]) == ("agent_1", "Explore")


@pytest.mark.parametrize(
    ("given", "timeout"), [(None, TIMEOUT), (0, TIMEOUT), (-1, TIMEOUT), ("9", TIMEOUT), (2, 2.0), (0.5, 0.5)]
)
def test_a_hook_has_the_time_that_its_host_gives_it_or_the_usual(given: Any, timeout: float) -> None:
    hooks = HostHooks("/")
    table = {"hookCallbackIds": ["a", "b"], "timeout": given}
    assert hooks.register({"PreToolUse": [table, {**table, "matcher": "Bash"}]}) == []
    found = [Registered(matcher=matcher, callbacks=("a", "b"), timeout=timeout) for matcher in ("", "Bash")]
    assert hooks._hooks == {"PreToolUse": found}


async def test_only_events_with_hooks_are_heard_and_each_call_has_an_id_of_its_own() -> None:
    host = FakeHost(h0={})
    hooks = host.hooks(Stop=[group("h0")], PreToolUse=[])
    assert hooks.hears("Stop") and not hooks.hears("PreToolUse") and not hooks.hears("UserPromptSubmit")
    for _ in range(2):
        (waiting,) = hooks.further("Stop", "", {})
        await waiting
    assert len({asked["tool_use_id"] for asked in host.asked}) == 2 and host.asked[0]["callback_id"] == "h0"
    assert hooks.further("PreToolUse", "Bash", {}) == [] and hooks.judge is None
    assert hooks.described() == {"session_id": "s1"} and hooks.stop_turn == host.end_turn
    with pytest.raises(Unsupported, match="hooks must be an object, not list"):
        hooks.register([])
    with pytest.raises(Unsupported, match="'Newer' are not supported") as refused:
        hooks.register({"Newer": []})
    assert "PreToolUse" in str(refused.value.hint)
