"""The lines between the first and the result, in Claude Code's form."""

import asyncio
from pathlib import Path

import msgspec

from tests.doors.oneshot.ran import HELLO, Commanded, Ran, interrupted, speaks
from tests.stand_ins.sessions import Step
from treadle.doors.oneshot.hosting import Partial, Verbose
from treadle.events import (
    ErrorInfo,
    ImageFile,
    Message,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
)
from treadle.session import AgentInfo, CommandInfo


async def test_a_result_with_an_image_has_it_as_a_block_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "i.png").write_bytes(b"hi")
    images = tuple(
        ImageFile(path=str(tmp_path / name), media_type="image/png", size=2) for name in ("i.png", "removed.png")
    )
    session = Commanded([ToolEnded(call="c1", name="read_file", result="an image", images=images)])
    run = await Ran(session, "stream-json", extra=Verbose(session, cwd="/")).go()
    [user] = [record for record in run.out.records if record["type"] == "user"]
    assert user["message"]["content"][0]["content"] == [
        {"type": "text", "text": "an image"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
    ]


async def test_verbose_adds_init_assistant_and_user_lines() -> None:
    steps: list[Step] = [
        ThinkingDelta(text="hm"),
        Message(text="hm", kind="thinking", model="m"),
        *HELLO,
        Message(text="Hello", model="m"),
        Usage(model="m"),
        ToolStarted(call="c1", name="bash", args={"command": "ls"}),
        ToolEnded(call="c1", name="bash", result="a\nb"),
        ToolDenied(call="c2", name="bash", reason="no", args={"command": "rm"}),
    ]
    session = Commanded(steps)
    verbose = Verbose(session, cwd="/work", mode="suggest")
    run = await Ran(session, "stream-json", extra=verbose).go()
    lines = [record for record in run.out.records if record["type"] != "stream_event"]
    assert [line["type"] for line in lines] == [
        "system",
        "assistant",
        "assistant",
        "assistant",
        "user",
        "assistant",
        "system",
        "user",
        "result",
    ]
    assert lines[0]["subtype"] == "init" and lines[0]["session_id"] == "s1"
    assert (lines[6]["subtype"], lines[6]["tool_use_id"]) == ("permission_denied", "c2")
    blocks = [line["message"]["content"][0] for line in lines[1:-1] if "message" in line and line["type"] != "system"]
    assert [block["type"] for block in blocks] == [
        "thinking",
        "text",
        "tool_use",
        "tool_result",
        "tool_use",
        "tool_result",
    ]
    assert blocks[3] == {"tool_use_id": "c1", "type": "tool_result", "content": "a\nb", "is_error": False}


async def test_words_that_never_came_as_a_whole_message_are_a_line_too() -> None:
    steps: list[Step] = [
        *HELLO,
        ToolStarted(call="c1", name="bash"),
        ToolEnded(call="c1", name="bash", result=""),
        TextDelta(text="By"),
        asyncio.Event(),
    ]
    session = Commanded(steps)
    run = Ran(session, "stream-json", extra=Verbose(session, cwd="/"))
    await interrupted(run, lambda event: speaks(event) and event.text == "By")
    lines = [record["message"]["content"][0] for record in run.out.records if record["type"] in ("assistant", "user")]
    assert [line.get("text", line["type"]) for line in lines] == ["Hello", "tool_use", "tool_result", "By"]


async def test_the_blocks_of_one_reply_share_an_id_and_replies_without_words_have_their_own() -> None:
    def use(call: str) -> list[Step]:
        return [ToolStarted(call=call, name="bash"), ToolEnded(call=call, name="bash", result="")]

    steps: list[Step] = [
        Message(text="hm", kind="thinking"),
        Message(text="two at once"),
        Usage(),
        *use("a"),
        *use("b"),
        Usage(),
        *use("c"),
        Message(text="done"),
        Usage(),
    ]
    session = Commanded(steps, steps)
    run = await Ran(session, "stream-json", extra=Verbose(session, cwd="/")).go()
    ids = [record["message"]["id"] for record in run.out.records if record["type"] == "assistant"]
    assert [ids.index(name) for name in ids] == [0, 0, 0, 0, 4, 5]
    await run.go()
    assert len({record["message"]["id"] for record in run.out.records if record["type"] == "assistant"}) == 6


async def test_init_says_what_the_session_has_now_in_claude_codes_words() -> None:
    class Telling(Commanded):
        about = AgentInfo(
            name="x",
            models=("m1",),
            tools=("bash",),
            mode="auto-edit",
            key_source="X_KEY",
            mcp_servers={"db": "connected", "web": "failed"},
            subagents=("Explore",),
        )

        @property
        def info(self) -> AgentInfo:
            return self.about

        def commands(self) -> list[CommandInfo]:
            return [CommandInfo(name="help"), CommandInfo(name="weave", skill=True)]

    session = Telling()
    run = await Ran(session, "stream-json", extra=Verbose(session, cwd="/work")).go()
    session.about = msgspec.structs.replace(session.about, mode="plan", models=("m2",))
    await run.go()
    first, second = (record for record in run.out.records if record["type"] == "system")
    assert {key: first[key] for key in first if key not in ("uuid", "treadle_version")} == {
        "type": "system",
        "subtype": "init",
        "cwd": "/work",
        "session_id": "s1",
        "tools": ["Bash"],
        "mcp_servers": [{"name": "db", "status": "connected"}, {"name": "web", "status": "failed"}],
        "model": "m1",
        "permissionMode": "acceptEdits",
        "slash_commands": ["help", "weave"],
        "apiKeySource": "X_KEY",
        "claude_code_version": "2.1.325",
        "output_style": "default",
        "agents": ["Explore"],
        "skills": ["weave"],
        "plugins": [],
        "capabilities": [],
        "fast_mode_state": "off",
        "terminal_slash_commands": [],
        "view_mode": "default",
    }
    assert (second["permissionMode"], second["model"]) == ("plan", "m2")


async def test_lines_of_a_subagent_say_whose_they_are() -> None:
    steps: list[Step] = [
        ToolDenied(call="c1", name="bash", reason="no", parent="agent_1"),
        Usage(parent="agent_1"),
        Message(text="Hello"),
    ]
    session = Commanded(steps)
    run = await Ran(session, "stream-json", extra=Verbose(session, cwd="/", partial=True)).go()
    _, *lines, _ = [(record["type"], record.get("parent_tool_use_id")) for record in run.out.records]
    assert lines == [("system", None), ("assistant", "agent_1"), ("user", "agent_1"), ("assistant", None)]


def test_partial_messages_open_close_and_end_each_block_once() -> None:
    partial = Partial(Commanded())

    def kinds(event: object) -> list[str]:
        return [record["event"]["type"] for record in partial.lines(event)]  # type: ignore[arg-type]

    begin = ["message_start", "content_block_start", "content_block_delta"]
    assert kinds(ThinkingDelta(text="hm")) == begin and kinds(ThinkingDelta(text="m")) == ["content_block_delta"]
    assert kinds(TextDelta(text="a")) == ["content_block_stop", "content_block_start", "content_block_delta"]
    assert kinds(Message(text="a")) == ["content_block_stop"] and kinds(Message(text="a")) == []
    assert kinds(Usage(input_tokens=3, output_tokens=2)) == []
    call = partial.lines(ToolStarted(call="c", name="bash", args={"command": "ls"}))
    assert [record["event"]["type"] for record in call] == [
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    ]
    assert [record["event"].get("index") for record in call] == [2, 2, 2]
    assert call[0]["event"]["content_block"] == {"type": "tool_use", "id": "c", "name": "Bash", "input": {}}
    assert call[1]["event"]["delta"] == {"type": "input_json_delta", "partial_json": '{"command":"ls"}'}
    end = partial.lines(ToolEnded(call="c", name="bash", result=""))
    assert [record["event"]["type"] for record in end] == ["message_delta", "message_stop"]
    assert end[0]["event"]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert end[0]["event"]["usage"] == {"input_tokens": 3, "output_tokens": 2}
    assert kinds(TurnEnded(outcome="completed")) == [], "it has ended already"
    assert kinds(TextDelta(text="b")) == begin
    assert kinds(Usage()) == []
    last = partial.lines(TurnEnded(outcome="completed"))
    assert last[1]["event"]["delta"]["stop_reason"] == "end_turn" and last[0]["event"]["type"] == "content_block_stop"
    assert kinds(ToolStarted(call="d", name="bash")) == [], "only what belongs to a counted reply is one of its blocks"
    assert kinds(TextDelta(text="c")) == begin
    assert kinds(Retrying(attempt=1, delay_ms=0, error=ErrorInfo(code="x", message=""))) == ["content_block_stop"]
    assert kinds(TextDelta(text="d")) == begin, "it starts over, with a message of its own"
    assert kinds(TextDelta(text="e", parent="p")) == []
    first = partial.lines(ThinkingDelta(text="f"))
    assert first[1]["event"]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert all(record["parent_tool_use_id"] is None and record["session_id"] for record in first)


def test_what_is_written_besides_is_chosen_at_the_start() -> None:
    session = Commanded()
    assert Verbose(session, cwd="/", lines=False).begin() == []
    assert Verbose(session, cwd="/", lines=False).lines(ToolStarted(call="c", name="bash")) == []
    (begun,) = Verbose(session, cwd="/w", mode="plan").begin()
    assert (begun["subtype"], begun["cwd"], begun["permissionMode"]) == ("init", "/w", "plan")
    for options, deltas in (({}, True), ({"partial": True}, False), ({"deltas": False}, False)):
        assert Verbose(session, cwd="/", **options).deltas is deltas
    assert not Verbose(session, cwd="/").subagents and Verbose(session, cwd="/", subagents=True).subagents
    started = TurnStarted(prompt="x")
    assert len(Verbose(session, cwd="/", partial=True).lines(started)) == 1
    assert Verbose(session, cwd="/").lines(started) == []
    both = Verbose(session, cwd="/", partial=True)
    both.begin()
    both.lines(TextDelta(text="a"))
    lines = both.lines(Usage(input_tokens=3))
    assert lines == [] and [each["type"] for each in both.lines(Message(text="a"))] == ["stream_event"]
    held = both.lines(Usage(input_tokens=4))
    assert held[0]["type"] == "assistant" and held[0]["message"]["usage"]["input_tokens"] == 4


def test_a_message_waits_for_its_count_and_one_without_is_let_go_by_what_follows() -> None:
    verbose = Verbose(Commanded(), cwd="/")
    verbose.begin()
    assert verbose.lines(Message(text="a", model="m")) == []
    (line,) = verbose.lines(Usage(input_tokens=3, output_tokens=2, cache_read_tokens=5, cache_write_tokens=7))
    assert line["message"]["content"][0]["text"] == "a" and line["message"]["model"] == "m"
    usage = line["message"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]) == (3, 2, 5)
    assert verbose.lines(TextDelta(text="b")) == [] and verbose.lines(Message(text="b")) == []
    (second,) = verbose.lines(TurnEnded(outcome="completed"))
    assert second["message"]["content"][0]["text"] == "b" and second["message"]["id"] != line["message"]["id"]
    assert verbose.lines(TurnEnded(outcome="completed")) == [], "it is written once"
