"""What the app server says out of step."""

import os
import time
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.agent.pixels import png
from tests.drivers.scenarios import NAMED, USED, Scenario, play
from tests.drivers.talks import SAYS, WAITS, as_expected, heard, talked, written
from tests.drivers.test_session import HERE, replayed
from tests.waiting import until
from treadle.drivers.card import Launch, cards
from treadle.drivers.codex.driver import CodexAgent, CodexSession
from treadle.errors import NotFound, PeerExited, RemoteProtocolError, Unsupported
from treadle.events import Asked, Failed, Message, TurnStarted, Usage, Warned
from treadle.session import Answer, Change, Instructions, Prompt, Reasoning, Rules, SessionSpec, Start, Toolset

CODEX = cards()["codex"]
EXPECTED = Path(__file__).parent / "expected"
RESUMED = HERE / "codex" / "recordings" / "resumed.jsonl"


async def test_what_the_resumed_thread_used_before_is_not_counted_again(tmp_path: Path) -> None:
    """It tells the use of the earlier turn after the thread is resumed, maybe while the next one starts."""
    lines = RESUMED.read_text().splitlines()
    told = next(at for at, line in enumerate(lines) if "tokenUsage/updated" in line)
    asked = next(at for at, line in enumerate(lines) if 'turn/start"' in line)
    lines.insert(asked, lines.pop(told))
    assert 'turn/start"' in lines[asked - 1] and "tokenUsage/updated" in lines[asked]
    late = tmp_path / "late.jsonl"
    late.write_text("\n".join(lines))
    async with play(replayed(cards()["codex"], str(late)), NAMED["text"], tmp_path, resume="the-old-one") as played:
        assert [usage.output_tokens for usage in played.of(Usage)] == [USED.output]


async def test_a_resumed_thread_has_its_history(tmp_path: Path) -> None:
    session = await replayed(cards()["codex"], "resumed").open(SessionSpec.of(cwd=str(tmp_path), resume="the-old-one"))
    try:
        assert isinstance(session, CodexSession)
        past = session.history()
    finally:
        await session.close()
    assert [type(event) for event in past] == [TurnStarted, Message]
    assert isinstance(past[0], TurnStarted) and past[0].prompt == "[[hello]]"


async def test_how_full_the_context_is_is_known_after_a_call(tmp_path: Path) -> None:
    async with play(replayed(cards()["codex"], "text"), NAMED["text"], tmp_path) as played:
        info = played.session.info
    assert info.context_used == 125 and info.context_window is not None and info.context_window > 125


def note(method: str, *, thread: str = "t", within: str = "u", **params: Any) -> tuple[str, Any]:
    return SAYS, {"method": method, "params": {"threadId": thread, "turnId": within, **params}}


def asks(number: int, method: str, **params: Any) -> list[tuple[str, Any]]:
    """It asks, and goes on when it has the answer."""
    return [(SAYS, {"id": number, "method": method, "params": params}), (WAITS, {"id": number, "result": {}})]


def done(kind: str, id: str, *, status: str = "completed", thread: str = "t", **fields: Any) -> tuple[str, Any]:
    return note("item/completed", thread=thread, item={"type": kind, "id": id, "status": status, **fields})


def begun(kind: str, id: str, **fields: Any) -> tuple[str, Any]:
    return note("item/started", item={"type": kind, "id": id, **fields})


def command(text: str) -> dict[str, Any]:
    return {"command": f"/bin/bash -lc '{text}'", "cwd": "/w"}


def opening(method: str, greeting: Any = None, model: str | None = "m1") -> list[tuple[str, Any]]:
    return [
        (WAITS, {"id": 1, "method": "initialize"}),
        (SAYS, {"id": 1, "result": greeting or {"userAgent": "treadle/0.165.0 (Debian)"}}),
        (WAITS, {"method": "initialized"}),
        (WAITS, {"id": 2, "method": method}),
        (SAYS, {"id": 2, "result": {"thread": {"id": "t"}, "model": model}}),
    ]


BEGIN = [
    (WAITS, {"id": 3, "method": "turn/start"}),
    (SAYS, {"id": 3, "result": {"turn": {"id": "u"}}}),
    (SAYS, {"method": "turn/started", "params": {"threadId": "t", "turn": {"id": "u"}}}),
]
END = note("turn/completed", turn={"id": "u", "status": "completed"})
WHOLE = Scenario("talk", ("go",), lambda played: None)


async def test_what_its_messages_and_items_mean(tmp_path: Path) -> None:
    used = {"inputTokens": 12, "cachedInputTokens": 2, "outputTokens": 3}
    patch = [{"path": "/w/a", "kind": {"type": "add"}, "diff": "x\n"}]
    played, events, _ = await talked(
        CODEX,
        tmp_path,
        SessionSpec.of(cwd=str(tmp_path), mode="yolo"),
        WHOLE,
        *opening("thread/start"),
        *BEGIN,
        note("item/agentMessage/delta", within="earlier", itemId="m0", delta="of an earlier turn"),
        note("item/agentMessage/delta", thread="other", itemId="m0", delta="of another thread"),
        note("item/agentMessage/delta", itemId="m1", delta="Hel"),
        note("item/agentMessage/delta", itemId="m1", delta="lo"),
        done("agentMessage", "m1", text="Hello"),
        done("agentMessage", "m2", text="Whole"),
        done("agentMessage", "m3", text=""),
        note("item/reasoning/summaryTextDelta", delta="hm"),
        done("reasoning", "r1", summary=["first", "second"]),
        done("reasoning", "r2", summary=[]),
        begun("commandExecution", "c1", **command("false")),
        note("item/commandExecution/outputDelta", itemId="c1", delta="no"),
        done("commandExecution", "c1", **command("false"), exitCode=3, aggregatedOutput="no"),
        done("commandExecution", "c2", **command("true"), exitCode=0),
        done("commandExecution", "c3", **command("true"), status="failed", exitCode=None),
        done("fileChange", "f1", changes=patch),
        done("fileChange", "f2", changes=patch, status="failed"),
        done("mcpToolCall", "x1", server="notes", tool="read_file", arguments={"path": "/w/b"}, result="text"),
        begun("commandExecution", "c4", **command("sudo")),
        done("commandExecution", "c4", **command("sudo"), status="declined"),
        *(note("rawResponseItem/completed", item=item) for item in (
            {"type": "function_call", "call_id": "r1", "name": "exec_command", "arguments": '{"cmd": "ls"}'},
            {"type": "function_call_output", "call_id": "r1", "output": "sandbox says no"},
            {"type": "function_call_output", "call_id": "r1", "output": "again"},
            {"type": "custom_tool_call", "call_id": "r2", "name": "apply_patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "r2", "output": {"odd": 1}},
            {"type": "local_shell_call", "call_id": "r3", "name": "shell", "action": {"command": ["ls"]}},
            {"type": "function_call_output", "call_id": "r3", "output": ""},
            {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "known by its item"},
            {"type": "function_call", "call_id": None},
            {"type": "message", "call_id": "r4"},
        )),
        done("collabAgentToolCall", "s1", tool="spawnAgent", receiverThreadIds=["child"], result="begun"),
        done("collabAgentToolCall", "s2", tool="wait", receiverThreadIds=["stranger"], result="waited"),
        note("item/agentMessage/delta", thread="stranger", itemId="k0", delta="not known"),
        note("item/agentMessage/delta", thread="child", within="v", itemId="k1", delta="Its words"),
        done("agentMessage", "k1", thread="child", text="Its words"),
        note("item/started", thread="child", item={"type": "commandExecution", "id": "k2", **command("ls")}),
        done("commandExecution", "k2", thread="child", **command("ls"), exitCode=0, aggregatedOutput="a"),
        note("thread/tokenUsage/updated", thread="child", tokenUsage={"last": used}),
        note("warning", thread="child", message="not of the turn itself"),
        note("thread/tokenUsage/updated", tokenUsage={"last": used, "modelContextWindow": 100}),
        note("error", willRetry=True, error={"message": "busy"}),
        note("warning", message="take care"),
        note("model/rerouted", toModel="m2"),
        note("model/rerouted"),
        note("turn/completed", turn={"id": "another", "status": "failed"}),
        done("agentMessage", "m4", text="The end."),
        END,
    )  # fmt: skip
    assert as_expected(events, EXPECTED / "meant.txt")
    info = played.session.info
    assert (info.version, info.models, info.context_used, info.context_window) == ("0.165.0", ("m1",), 15, 100)
    assert played.ends[0].iterations == 1 and played.ends[0].text == "The end."


async def test_what_it_asks_is_answered_in_its_own_words(tmp_path: Path) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.kind == "question":
            return Answer(decision="allow" if asked.text == "Which?" else "deny", text="Blue")
        scope: Any = "session" if "lasting" in (asked.command or "") else "once"
        if "refused" in (asked.command or ""):
            return Answer(decision="deny", text="not now")
        return Answer(decision="allow", scope=scope)

    questions = [
        {"id": "q1", "question": "Which?", "options": [{"label": "Red"}, "odd"]},
        {"id": "q2", "question": "Why?"},
    ]
    approval = "item/commandExecution/requestApproval"
    elicited = {"serverName": "notes", "message": 'Run "add"?', "_meta": {"codex_approval_kind": "mcp_tool_call"}}
    spec = SessionSpec.of(cwd=str(tmp_path), mode="suggest", answers=True)
    _, events, told = await talked(
        CODEX,
        tmp_path,
        spec,
        WHOLE._replace(answer=answer),
        *opening("thread/start", {"userAgent": "treadle/0.166.0"}),
        *BEGIN,
        begun("commandExecution", "c1", **command("once")),
        *asks(10, approval, itemId="c1", reason="May I?"),
        done("commandExecution", "c1", **command("once"), exitCode=0),
        begun("commandExecution", "c2", **command("first")),
        *asks(11, approval, itemId="c2", command="/bin/bash -lc lasting"),
        begun("commandExecution", "c3", **command("refused")),
        *asks(12, approval, itemId="c3"),
        (WAITS, {"id": 4, "method": "turn/steer"}),
        (SAYS, {"id": 4, "error": {"code": -1, "message": "too late"}}),
        done("commandExecution", "c3", **command("refused"), status="declined"),
        *asks(13, "item/tool/requestUserInput", itemId="i1", questions=questions),
        begun("mcpToolCall", "x1", server="notes", tool="add", arguments={"path": "/w/a"}),
        *asks(14, "mcpServer/elicitation/request", **{**elicited, "serverName": "other"}),
        *asks(15, "mcpServer/elicitation/request", **{**elicited, "_meta": {}}),
        *asks(16, "mcpServer/elicitation/request", **{**elicited, "message": 'Run "more"?'}),
        *asks(17, "mcpServer/elicitation/request", **elicited),
        *asks(18, "execCommandApproval"),
        *asks(19, "something/later"),
        done("agentMessage", "m1", text="Done."),
        END,
    )
    assert as_expected(events, EXPECTED / "asked.txt")
    answers = {line["id"]: line.get("result", line.get("error")) for line in told if "method" not in line}
    assert answers == {
        10: {"decision": "accept"},
        11: {"decision": "acceptForSession"},
        12: {"decision": "decline"},
        13: {"answers": {"q1": {"answers": ["Blue"]}, "q2": {"answers": []}}},
        **dict.fromkeys((14, 15, 16), {"action": "decline"}),
        17: {"action": "accept", "content": {}},
        18: {"decision": "denied"},
        19: {"code": -32601, "message": "something/later is not supported"},
    }
    (steered,) = [line["params"] for line in told if line.get("method") == "turn/steer"]
    words = [{"type": "text", "text": "About the call that was refused: not now"}]
    assert steered == {"threadId": "t", "expectedTurnId": "u", "input": words}


async def test_how_it_is_opened_says_what_the_session_is_to_be(tmp_path: Path) -> None:
    servers = {"a": {"command": "x", "args": ["y"]}, "b": {"url": "https://b.example/", "headers": {"K": "v"}}}
    spec = SessionSpec(
        cwd=str(tmp_path),
        mode="plan",
        model="m0",
        answers=True,
        rules=Rules(ask=("Bash(rm *)",)),
        thinking=Reasoning(effort="low"),
        instructions=Instructions(system="Be brief.", append="Be kind."),
        tools=Toolset(servers=servers),
        add_dirs=("/more",),
        start=Start(persist=False),
    )
    failed = {"id": "u", "status": "failed", "error": {"message": "no key", "codexErrorInfo": "unauthorized"}}
    played, events, told = await talked(
        CODEX, tmp_path, spec, WHOLE, *opening("thread/start", model=None), *BEGIN, note("turn/completed", turn=failed)
    )
    assert told[0]["params"]["clientInfo"]["name"] == "treadle"
    assert told[0]["params"]["capabilities"] == {"experimentalApi": True} and told[1]["method"] == "initialized"
    assert told[2]["params"] == {
        "cwd": "/w",
        "approvalPolicy": "untrusted",
        "approvalsReviewer": "user",
        "sandbox": "read-only",
        "experimentalRawEvents": True,
        "ephemeral": True,
        "model": "m0",
        "baseInstructions": "Be brief.",
        "developerInstructions": "Be kind.",
        "config": {
            "model_reasoning_effort": "low",
            "features": {"default_mode_request_user_input": True},
            "mcp_servers": {
                "a": {"command": "x", "args": ["y"]},
                "b": {"url": "https://b.example/", "http_headers": {"K": "v"}},
            },
            "sandbox_workspace_write": {"writable_roots": ["/more"]},
        },
    }
    prompt = [{"type": "text", "text": "go"}]
    assert told[3]["params"] == {"threadId": "t", "input": prompt, "model": "m0", "effort": "low"}
    assert played.session.info.models == ("m0",)
    assert any("without asking" in line and "not_enforced" in line for line in events)
    assert played.ends[0].error is not None and played.ends[0].error.code == "auth_failed"


async def test_a_usage_limit_says_how_long_it_lasts(tmp_path: Path) -> None:
    until = int(time.time()) + 3 * 86400
    windows = {"primary": {"usedPercent": 100, "resetsAt": until}, "secondary": {"usedPercent": 9, "resetsAt": 1}}
    limits = {**windows, "credits": None, "planType": "plus"}
    failed = {"status": "failed", "error": {"message": "no more", "codexErrorInfo": "usageLimitExceeded"}}
    talk = [(SAYS, {"method": "account/rateLimits/updated", "params": {"rateLimits": limits}})]
    talk += [note("error", error=failed["error"]), note("turn/completed", turn={"id": "u", **failed})]
    spec = SessionSpec(cwd=str(tmp_path))
    played, _, _ = await talked(CODEX, tmp_path, spec, WHOLE, *opening("thread/start"), *BEGIN, *talk)
    (told,) = played.of(Failed)
    for error in (told.error, played.ends[0].error):
        assert error is not None and error.code == "rate_limited"
        assert abs(error.retry_after_ms / 1000 + time.time() - until) < 600


@pytest.mark.parametrize(("resume", "fork"), [("old", False), ("old", True), ("", False)])
async def test_an_earlier_thread_goes_on_itself_or_as_a_copy(tmp_path: Path, resume: str, fork: bool) -> None:
    method = "thread/fork" if fork else "thread/resume"
    talk = opening(method, {"userAgent": "treadle/0.167.0"})
    if not resume:
        talk[3:3] = [
            (WAITS, {"id": 2, "method": "thread/list"}),
            (SAYS, {"id": 2, "result": {"data": [{"id": "new"}]}}),
        ]
        talk[5] = WAITS, {"id": 3, "method": method}
        talk[6] = SAYS, {"id": 3, "result": {"thread": {"id": "t"}}}
    noted = tmp_path / "noted"
    agent = replayed(CODEX, written(tmp_path / "talk.jsonl", *talk), noted=noted)
    session = await agent.open(SessionSpec.of(cwd=str(tmp_path), resume=resume, fork=fork))
    warned = [event.message for event in session.events().ready() if isinstance(event, Warned)]
    await session.close()
    assert session.id == "t" and "is newer than any recording" in warned[0]
    asked = heard(noted)[2:]
    assert asked[-1]["params"]["threadId"] == (resume or "new") and asked[-1]["method"] == method
    assert "experimentalRawEvents" not in asked[-1]["params"] and asked[-1]["params"]["sandbox"] == "workspace-write"
    assert len(asked) == 1 or asked[0]["params"] == {"limit": 1, "cwd": str(tmp_path)}


@pytest.mark.parametrize(
    ("start", "answer", "error", "words"),
    [
        (Start(resume=""), {"data": []}, NotFound, "no session in this directory"),
        (Start(resume="x", persist=False), None, Unsupported, "always saves a resumed"),
        (Start(), {"thread": {}}, RemoteProtocolError, "opened a thread without an id"),
    ],
)
async def test_what_cannot_be_opened_says_why(
    tmp_path: Path, start: Start, answer: Any, error: type[Exception], words: str
) -> None:
    talk = [*opening("thread/list" if start.resume == "" else "thread/start")[:4], (SAYS, {"id": 2, "result": answer})]
    with pytest.raises(error, match=words):
        await replayed(CODEX, written(tmp_path / "talk.jsonl", *talk)).open(SessionSpec(cwd=str(tmp_path), start=start))


@pytest.mark.parametrize(
    ("talk", "words"),
    [
        ([(SAYS, {"id": 3, "result": {}})], "did not report which turn it began"),
        ([(SAYS, {"id": 3})], "its answer has neither a result nor an error"),
        ([*BEGIN[1:], note("turn/completed")], "it gave no reason"),
        ([*BEGIN[1:], note("turn/completed", turn={"error": {"message": "out of order"}})], "out of order"),
    ],
)
async def test_an_answer_that_lacks_what_it_must_have_ends_the_turn(tmp_path: Path, talk: Any, words: str) -> None:
    spec = SessionSpec.of(cwd=str(tmp_path))
    played, _, _ = await talked(CODEX, tmp_path, spec, WHOLE, *opening("thread/start"), BEGIN[0], *talk)
    [end] = played.ends
    assert end.outcome == "failed" and end.error is not None and words in end.error.message


async def test_it_lists_its_threads_models_and_account_and_its_model_and_effort_change(tmp_path: Path) -> None:
    threads = {"data": [{"id": "a", "cwd": "/x", "name": "A", "updatedAt": 5}, {"id": ""}, "odd"]}
    answers = [threads, None, {"data": [{"model": "m1", "displayName": "One"}]}, {"account": {"type": "apiKey"}}]
    answers += [{"requiresOpenaiAuth": True}, {"requiresOpenaiAuth": False}, []]
    methods = ("thread/list", "thread/list", "model/list", *["account/read"] * 4)
    talk = [*opening("thread/start"), *chain.from_iterable(
        [(WAITS, {"id": at, "method": method}), (SAYS, {"id": at, "result": answer})]
        for at, (method, answer) in enumerate(zip(methods, answers, strict=True), 3)
    ), (WAITS, {"id": 10, "method": "turn/start"})]  # fmt: skip
    noted = tmp_path / "noted"
    agent = replayed(CODEX, written(tmp_path / "talk.jsonl", *talk), noted=noted)
    session = await agent.open(SessionSpec.of(cwd=str(tmp_path)))
    assert isinstance(session, CodexSession)
    try:
        assert [(one.id, one.title) for one in await session.stored_sessions("/x")] == [("a", "A")]
        assert await session.stored_sessions(None) == []
        menu = await session.menu()
        assert menu.current == "m1" and [one.name for one in menu.offered] == ["One"]
        assert [await session.account() for _ in range(4)] == ["apiKey", "", "a provider of its settings", None]
        await session.configure(Change(model="m2", mode="auto-edit", thinking=Reasoning(effort="high")))
        assert session.info.models == ("m2",) and session.info.mode == "auto-edit"
        with pytest.raises(Unsupported, match="does not support the effort"):
            await session.configure(Change(thinking=Reasoning(tokens=5)))
        await session.prompt(Prompt(text="look", images=(png(),)))
        await until(lambda: "turn/start" in noted.read_text())
    finally:
        await session.close()
    told = [(line["method"], line["params"]) for line in heard(noted)]
    listed, everywhere = [params for method, params in told if method == "thread/list"]
    (began,) = [params for method, params in told if method == "turn/start"]
    assert listed == {**everywhere, "cwd": "/x"} and listed["sortKey"] == "updated_at" and listed["limit"] == 500
    assert (began["model"], began["effort"]) == ("m2", "high")
    assert [part["type"] for part in began["input"]] == ["text", "image"]


async def test_threads_are_listed_without_opening_one_and_an_end_at_the_start_is_an_error(
    tmp_path: Path,
) -> None:
    talk = [*opening("thread/list")[:4], (SAYS, {"id": 2, "result": {"data": [{"id": "a", "preview": "P"}]}})]
    noted = tmp_path / "noted"
    agent = replayed(CODEX, written(tmp_path / "talk.jsonl", *talk), noted=noted)
    assert [one.title for one in await agent.stored_sessions(str(tmp_path))] == ["P"]
    assert heard(noted)[2]["params"]["cwd"] == str(tmp_path)
    broken = CodexAgent(CODEX, Launch(argv=("sh", "-c", "echo no >&2; exit 3")), environ={"PATH": os.environ["PATH"]})
    with pytest.raises(PeerExited, match="code 3"):
        await broken.open(SessionSpec.of(cwd=str(tmp_path)))


async def test_an_interrupt_asks_it_to_stop_and_to_end_what_it_left(tmp_path: Path) -> None:
    """A call that it does not ask about counts as started after a moment, and can then be interrupted."""
    stopped = {"id": "u", "status": "interrupted"}
    played, events, told = await talked(
        CODEX,
        tmp_path,
        SessionSpec.of(cwd=str(tmp_path), mode="yolo"),
        WHOLE._replace(interrupt=True),
        *opening("thread/start"),
        *BEGIN,
        begun("commandExecution", "c1", **command("sleep 9")),
        (WAITS, {"id": 4, "method": "turn/interrupt"}),
        (SAYS, {"id": 4, "result": {}}),
        (WAITS, {"id": 5, "method": "thread/backgroundTerminals/clean"}),
        (SAYS, {"id": 5, "error": {"code": -32601, "message": "not here"}}),
        note("turn/completed", turn=stopped),
    )
    assert played.ends[0].outcome == "interrupted" and not played.of(Warned)[1:]
    assert [line["params"] for line in told if line.get("id") in (4, 5)] == [
        {"threadId": "t", "turnId": "u"},
        {"threadId": "t"},
    ]
    assert [type(event).__name__ for event in played.events[2:]] == ["ToolStarted", "ToolEnded", "TurnEnded"], events
