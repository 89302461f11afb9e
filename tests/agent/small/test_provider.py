"""The native agent with a small model: what it does unasked, and what the service is asked."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from treadle.agent.native import NativeAgent
from treadle.agent.providers.script import parse
from treadle.agent.providers.small import MOST_QUOTED, REPLY_TOKENS, WARM
from treadle.events import AnyEvent, Message, ToolEnded, ToolStarted, TurnEnded, Usage
from treadle.session import Mode, SessionSpec, Start
from treadle.sessions.served import run_turn
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
    spent = [event.input_tokens for event in played.events if isinstance(event, Usage)]
    assert sum(spent) == len(played.bodies), "what was sent back is paid for, too"
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
