"""The native agent with a small model: what it does unasked, and what the service is asked."""

import json
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from treadle.agent.messages import (
    AssistantMessage,
    ChatMessage,
    ModelRequest,
    Reply,
    ReplyItem,
    ToolCall,
    ToolResult,
    UserMessage,
)
from treadle.agent.native import NativeAgent
from treadle.agent.providers.known import TOOLS, SmallProfile
from treadle.agent.providers.script import parse
from treadle.agent.providers.small import LARGEST_FILE, LIST, MOST_QUOTED, REPLY_TOKENS, WARM, SmallModel, several_note
from treadle.agent.toolbox import builtin
from treadle.events import AnyEvent, Message, TextDelta, ThinkingDelta, ToolEnded, ToolStarted, TurnEnded, Usage
from treadle.session import Mode, SessionSpec, Start
from treadle.sessions.session import run_turn
from treadle.testing.server import ModelServer


class Played(msgspec.Struct):
    events: list[AnyEvent]
    bodies: list[dict[str, Any]]

    @property
    def calls(self) -> list[tuple[str, Any]]:
        return [(event.name, event.args) for event in self.events if isinstance(event, ToolStarted)]

    @property
    def end(self) -> TurnEnded:
        return next(event for event in self.events if isinstance(event, TurnEnded))


async def play(
    place: Path, prompt: str, *replies: str | dict[str, str], small: str = "on", mode: Mode = "yolo"
) -> Played:
    tables = [reply if isinstance(reply, dict) else {"text": reply} for reply in replies]
    script = "".join(
        "[[reply]]\nusage = {input = 1, output = 1}\n"
        + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for table in tables
    )
    async with ModelServer(parse(script)) as server:
        spec = SessionSpec(
            cwd=str(place),
            model="chat:tiny",
            env={"TREADLE_BASE_URL": f"{server.url}/v1"},
            mode=mode,
            looks_freely=True,
            start=Start(persist=False),
            extra={"small": small},
        )
        session = await NativeAgent().open(spec)
        try:
            events = [event async for event in run_turn(session, prompt)]
        finally:
            await session.close()
        return Played(events, [request.body for request in server.asked])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    return tmp_path


EDIT = '{"tool":"edit_file","file_path":"calc.py","old_string":"a - b","new_string":"a + b"}'
HELLO = '{"tool":"answer","text":"Hello."}'
DONE = '{"tool":"answer","text":"Fixed add."}'


async def test_a_task_is_done_step_by_step_and_the_answer_is_plain_text(place: Path) -> None:
    played = await play(place, "Fix add in calc.py.", EDIT, DONE)
    assert played.end.outcome == "completed" and played.end.text == "Fixed add."
    assert (place / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert [event.text for event in played.events if isinstance(event, Message)] == ["Fixed add."]


async def test_files_that_the_prompt_names_are_read_before_the_model_is_asked(place: Path) -> None:
    played = await play(place, "Fix add in calc.py, not in gone.py.", HELLO)
    assert played.calls == [("bash", {"command": "ls"}), ("read_file", {"file_path": "calc.py"})]
    [body] = played.bodies
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    asked = body["messages"][1]["content"]
    assert "calc.py holds:\ndef add" in asked and asked.endswith("Task: Fix add in calc.py, not in gone.py.")


async def test_in_a_repository_files_in_directories_are_listed_too_without_a_question(place: Path) -> None:
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    for name in ("deep/nested.py", "node_modules/left.js"):
        (place / name).parent.mkdir()
        (place / name).touch()
    played = await play(place, "hello", HELLO, mode="suggest")
    [listed] = [event for event in played.events if isinstance(event, ToolEnded)]
    assert listed.ok and listed.result.split() == ["calc.py", "deep/nested.py"]


async def test_the_service_is_held_to_the_schema_of_one_call(place: Path) -> None:
    (place / "more.py").touch()
    [body] = (await play(place, "hello", HELLO)).bodies
    calls = body["response_format"]["json_schema"]["schema"]["anyOf"]
    names = [call["properties"]["tool"]["const"] for call in calls]
    assert names == ["read_file", "edit_file", "write_file", "bash", "answer"]
    assert body["temperature"] == 0 and body["max_tokens"] == REPLY_TOKENS and "tools" not in body


async def test_when_every_file_is_shown_there_is_nothing_to_read(place: Path) -> None:
    [body] = (await play(place, "Look at calc.py", HELLO)).bodies
    calls = body["response_format"]["json_schema"]["schema"]["anyOf"]
    assert "read_file" not in [call["properties"]["tool"]["const"] for call in calls]


async def test_the_file_is_shown_after_an_edit_that_failed(place: Path) -> None:
    wrong = EDIT.replace("a - b", "a * b")
    played = await play(place, "Fix add.", wrong, EDIT, DONE)
    assert ("read_file", {"file_path": "calc.py"}) in played.calls
    assert "calc.py holds:" in played.bodies[1]["messages"][-1]["content"]
    played = await play(place, "Fix add.", wrong, DONE, small="-show-file")
    assert ("read_file", {"file_path": "calc.py"}) not in played.calls


async def test_a_repeated_call_may_not_be_made_a_third_time(place: Path) -> None:
    again = '{"tool":"bash","command":"true"}'
    played = await play(place, "Try.", again, again, DONE, small="-object")
    third = played.bodies[2]
    names = [call["properties"]["tool"]["const"] for call in third["response_format"]["json_schema"]["schema"]["anyOf"]]
    assert "bash" not in names and third["temperature"] == WARM
    assert "same call" in third["messages"][-1]["content"]


async def test_a_call_that_cannot_help_is_sent_back_and_is_no_step(place: Path) -> None:
    broken = EDIT.replace("a + b", "a +* b")
    played = await play(place, "Fix add in calc.py.", broken, EDIT, DONE)
    assert [name for name, _ in played.calls] == ["bash", "read_file", "edit_file", "read_file"]
    assert "could not be read any more" in played.bodies[1]["messages"][-1]["content"]
    assert all("could not be read" not in str(message) for message in played.bodies[2]["messages"])
    assert (place / "calc.py").read_text().endswith("a + b\n")


async def test_after_a_few_objections_a_call_is_made_as_it_is(place: Path) -> None:
    over = '{"tool":"write_file","file_path":"calc.py","content":"x = 1\\n"}'
    played = await play(place, "Write calc.py anew.", over, over, over, DONE)
    assert (place / "calc.py").read_text() == "x = 1\n"
    calls = played.bodies[1]["response_format"]["json_schema"]["schema"]["anyOf"]
    assert "write_file" not in [call["properties"]["tool"]["const"] for call in calls]


async def test_a_reply_that_was_cut_off_is_an_error_with_the_right_call(place: Path) -> None:
    played = await play(place, "Write.", '{"tool":"write_file","file_path":"x.py","content":"de', DONE)
    failed = [event for event in played.events if isinstance(event, ToolEnded) and not event.ok]
    assert len(failed) == 1 and not (place / "x.py").exists()
    assert "A right call" in played.bodies[1]["messages"][-1]["content"]


ENDLESS = json.dumps(
    {"tool": "write_file", "file_path": "t.py", "content": "".join(f"print({number})\n" for number in range(200))}
)
SHORT = '{"tool":"write_file","file_path":"t.py","content":"print(1)\\n"}'


async def test_a_reply_that_goes_on_and_on_is_cut_off_and_asked_for_again(place: Path) -> None:
    played = await play(place, "Write t.py.", ENDLESS, SHORT, DONE)
    assert (place / "t.py").read_text() == "print(1)\n"
    again = played.bodies[1]["messages"]
    assert [body["temperature"] for body in played.bodies] == [0, WARM, 0]
    assert "too long" in again[-1]["content"] and len(again[-2]["content"]) <= MOST_QUOTED
    looked, written, answered = [event for event in played.events if isinstance(event, Usage)]
    assert [looked.source, written.source, answered.source] == ["provider", "estimate", "provider"]


async def test_what_still_goes_on_after_the_objections_is_taken_as_it_is(place: Path) -> None:
    await play(place, "Write t.py.", ENDLESS, ENDLESS, ENDLESS, DONE)
    assert len((place / "t.py").read_text().splitlines()) == 200


async def test_a_reply_that_the_cap_cut_off_is_asked_for_again(place: Path) -> None:
    script = [{"text": SHORT[:-8], "finish": "length"}, {"text": SHORT}, {"text": DONE}]
    played = await play(place, "Write t.py.", *script)
    assert (place / "t.py").read_text() == "print(1)\n" and "too long" in played.bodies[1]["messages"][-1]["content"]
    assert not [event for event in played.events if isinstance(event, ToolEnded) and not event.ok]


async def test_parts_that_are_left_out_are_not_there(place: Path) -> None:
    [body] = (
        await play(place, "hello calc.py", HELLO, small="-constrain,-caps,-look_first,-tools,-prompt,-manual")
    ).bodies
    assert "response_format" not in body and "max_tokens" not in body
    assert "calc.py holds" not in body["messages"][1]["content"]
    assert "grep: " in body["messages"][0]["content"] and "You are Treadle" in body["messages"][0]["content"]


async def test_without_the_profile_the_service_gets_the_tools_as_they_are(place: Path) -> None:
    [body] = (await play(place, "hello", "hi", small="off")).bodies
    assert body["tools"] and "response_format" not in body


class Inner:
    """A model that says what the test lists, one list for each request."""

    model = "tiny"
    context_window = 8192
    priced = True
    sees = True

    def __init__(self, *says: list[ReplyItem], name: str = "chat") -> None:
        self.name = name
        self.says = list(says)
        self.asked: list[ModelRequest] = []
        self.closed = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyItem, None]:
        self.asked.append(request)
        for item in self.says.pop(0):
            yield item

    async def models(self) -> list[str]:
        return ["tiny", "other"]

    async def aclose(self) -> None:
        self.closed = True


def answered(text: str, **used: Any) -> Reply:
    usage = Usage(model="tiny", **used) if used else None
    return Reply(message=AssistantMessage(text=text), finish="stop", usage=usage)


def request(*messages: ChatMessage, tools: tuple[str, ...] = TOOLS) -> ModelRequest:
    return ModelRequest(system="s", messages=messages or (UserMessage(text="hi"),), tools=builtin(tools).schemas())


ASKED_AT_ONCE = SmallProfile(look_first=False)


async def said(
    inner: Inner, asked: ModelRequest, profile: SmallProfile = ASKED_AT_ONCE, cwd: str = "/nowhere"
) -> list[ReplyItem]:
    return [item async for item in SmallModel(inner, profile, cwd).stream(asked)]


async def test_it_is_its_model_but_for_eyes() -> None:
    inner = Inner()
    small = SmallModel(inner, SmallProfile(), "/")
    assert (small.name, small.model, small.context_window, small.priced, small.sees) == (
        "chat",
        "tiny",
        8192,
        True,
        False,
    )
    assert await small.models() == ["tiny", "other"]
    await small.aclose()
    assert inner.closed


async def test_a_request_without_tools_and_a_stream_without_a_reply_are_passed_on() -> None:
    items: list[ReplyItem] = [TextDelta(text="x"), answered("x")]
    plain = ModelRequest(system="s", messages=(UserMessage(text="sum it up"),))
    inner = Inner(items)
    assert await said(inner, plain) == items and inner.asked == [plain]
    thinking = ThinkingDelta(text="hm")
    assert await said(Inner([TextDelta(text="x"), thinking]), request()) == [thinking]


@pytest.mark.parametrize(("name", "cost"), [("local", 0.0), ("chat", None)])
async def test_what_a_reply_that_was_cut_off_cost_is_known_only_here(name: str, cost: float | None) -> None:
    inner = Inner([TextDelta(text=ENDLESS), answered("never heard")], [answered(HELLO, cost_usd=0.5)], name=name)
    delta, reply = await said(inner, request())
    assert isinstance(reply, Reply) and isinstance(delta, TextDelta) and delta.text == reply.message.text == "Hello."
    assert reply.usage is not None and reply.usage.source == "estimate"
    assert reply.usage.cost_usd == (0.5 if name == "local" else cost)
    assert inner.asked[1].temperature == WARM and inner.asked[0].temperature == 0.0


async def test_what_several_requests_used_is_one_sum() -> None:
    fields = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    used = [{name: at * 10 + number for number, name in enumerate(fields)} for at in (1, 2)]
    claim = '{"tool":"answer","text":"I fixed it."}'
    inner = Inner(
        [answered(claim, **used[0], cost_usd=0.25, duration_ms=3)],
        [answered(HELLO, **used[1], cost_usd=0.5, duration_ms=4)],
    )
    reply = (await said(inner, request()))[-1]
    assert isinstance(reply, Reply) and reply.usage is not None and reply.message.text == "Hello."
    assert [getattr(reply.usage, name) for name in fields] == [30, 32, 34, 36, 38]
    assert (reply.usage.cost_usd, reply.usage.duration_ms, reply.usage.source) == (0.75, 7, "provider")
    assert "Nothing was changed yet" in inner.asked[1].messages[-1].text
    inner = Inner([answered(claim, input_tokens=1)], [answered(HELLO, input_tokens=1, cost_usd=0.5)])
    reply = (await said(inner, request()))[-1]
    assert isinstance(reply, Reply) and reply.usage is not None and reply.usage.cost_usd is None


async def test_a_call_is_not_judged_as_an_answer_and_what_is_not_objected_to_stays() -> None:
    both = '{"tool":"bash","command":"echo I fixed it"}'
    inner = Inner([answered(both)], [answered(HELLO)])
    [reply] = await said(inner, request())
    assert isinstance(reply, Reply) and [call.name for call in reply.message.calls] == ["bash"]
    assert reply.finish == "tool_calls" and len(inner.asked) == 1
    silent = SmallProfile(look_first=False, object=False)
    claim = '{"tool":"answer","text":"I fixed it."}'
    reply = (await said(Inner([answered(claim)]), request(), silent))[-1]
    assert isinstance(reply, Reply) and (reply.message.text, reply.finish) == ("I fixed it.", "stop")


def shown(items: list[ReplyItem]) -> list[tuple[str, Any]]:
    [reply] = items
    assert isinstance(reply, Reply) and reply.finish == "tool_calls"
    assert reply.usage is not None and reply.usage.cost_usd == 0.0 and not reply.message.text
    return [(call.name, json.loads(call.arguments)) for call in reply.message.calls]


async def test_what_is_looked_at_unasked_is_what_the_prompt_names_and_can_be_shown(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.py", "d.py", "Makefile"):
        (tmp_path / name).write_text("x")
    (tmp_path / "empty.py").touch()
    (tmp_path / "full.py").write_bytes(b"x" * LARGEST_FILE)
    (tmp_path / "large.py").write_bytes(b"x" * (LARGEST_FILE + 1))
    (tmp_path / "dir.d").mkdir()

    async def looked(prompt: str, *tools: str) -> list[str]:
        profile, names = SmallProfile(), tools or TOOLS
        items = await said(Inner(), request(UserMessage(text=prompt), tools=names), profile, str(tmp_path))
        return [str(next(iter(args.values()))) for _, args in shown(items)]

    assert await looked("see ./a.py and a.py, empty.py, large.py, dir.d, full.py") == ["ls", "a.py", "full.py"]
    assert await looked("a.py b.py c.py d.py", "read_file") == ["a.py", "b.py", "c.py"]
    assert await looked("run make with Makefile", "bash") == ["ls"]
    (tmp_path / ".git").mkdir()
    assert await looked("the Makefile") == [LIST, "Makefile"]


async def test_a_file_is_shown_after_its_own_edit_and_after_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    calls = tuple(
        ToolCall(id=key, name="edit_file", arguments=json.dumps({"file_path": path}))
        for key, path in (("1", "a.py"), ("2", "gone.py"), ("3", ""))
    )
    before = (UserMessage(text="go"), AssistantMessage(calls=calls))
    for call, name, does in (("1", "edit_file", True), ("1", "bash", False), ("2", "edit_file", False)):
        after = request(*before, ToolResult(call=call, name=name, text="x"))
        inner = Inner([answered(HELLO)])
        items = await said(inner, after, SmallProfile(), str(tmp_path))
        assert (len(inner.asked) == 0) is does
        if does:
            assert shown(items) == [("read_file", {"file_path": "a.py"})]
    for call in ("3", "unknown"):
        inner = Inner([answered(HELLO)])
        await said(inner, request(*before, ToolResult(call=call, name="edit_file", text="x")), SmallProfile())
        assert len(inner.asked) == 1
    inner = Inner([answered(HELLO)])
    result = ToolResult(call="1", name="edit_file", text="x")
    await said(inner, request(*before, result, tools=("bash",)), SmallProfile(), str(tmp_path))
    assert len(inner.asked) == 1, "there is no tool to read it with"


async def test_what_the_model_is_asked_follows_the_profile() -> None:
    async def asked(profile: SmallProfile) -> ModelRequest:
        inner = Inner([answered(HELLO)])
        await said(inner, request(), profile)
        return inner.asked[0]

    usual = await asked(SmallProfile(look_first=False))
    assert usual.cached and usual.tools == () and usual.max_output_tokens == REPLY_TOKENS and usual.schema is not None
    assert usual.system.endswith("\n\ns") and "several" not in usual.system
    off = SmallProfile(look_first=False, cache=False, caps=False, constrain=False, one_step=False)
    other = await asked(off)
    assert not other.cached and other.max_output_tokens is None and other.schema is None
    assert other.system != usual.system and several_note() in other.system
