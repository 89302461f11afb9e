"""Stand-ins for agents: recorded, scripted, faulty."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.stand_ins import RECORD
from tests.stand_ins.record import HIDE
from tests.stand_ins.sessions import ScriptedAgent, ScriptedSession
from treadle.events import Asked, Event, TurnEnded
from treadle.session import Answer, Prompt, SessionSpec
from treadle.sessions.session import Turn
from treadle.sessions.totals import run_turn

AGENT = """
import sys
for line in sys.stdin:
    sys.stdout.write(line.upper() if "{" not in line else line)
    sys.stdout.flush()
sys.exit(3)
"""


def test_both_sides_are_passed_on_and_written_down_without_what_is_hidden(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    argv = [sys.executable, RECORD, str(record), sys.executable, "-c", AGENT]
    env = {**os.environ, HIDE: "s3cret=KEY\n=nothing\n"}
    asked = '{"key": "s3cret"}\nplain s3cret\n'
    done = subprocess.run(argv, input=asked, capture_output=True, text=True, env=env, timeout=60)
    assert (done.stdout, done.returncode) == ('{"key": "s3cret"}\nPLAIN S3CRET\n', 3), done.stderr
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [each["line"] for each in lines if each["dir"] == "in"] == [{"key": "KEY"}, "plain KEY"]
    assert [each["line"] for each in lines if each["dir"] == "out"][0] == {"key": "KEY"}


INIT = {"type": "init", "id": "i"}
SEND = {"type": "send", "id": "s", "message": "hello"}


def worked(script: dict[str, Any], *requests: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "treadle.testing.faulty_worker", json.dumps(script)]
    text = "".join(json.dumps(each) + "\n" for each in requests)
    return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60)


def test_without_a_script_it_is_a_worker() -> None:
    done = worked({}, INIT, SEND, {"type": "shutdown", "id": "e"})
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["init_ok", "event", "event", "result", "shutdown_ok"]
    assert [line["event_seq"] for line in lines[1:3]] == [0, 1] and lines[3]["response"] == "hello"
    assert done.returncode == 0


def test_each_action_of_a_script_is_done_in_its_order() -> None:
    script = {
        "send": [
            {"repeat": 2, "do": [{"event": {"event": "heartbeat"}}]},
            {"stderr": "oh no"},
            {"await": "cancel"},
            {"raw": "half a li"},
            {"exit": 3},
        ]
    }
    done = worked(script, SEND, {"type": "status", "id": "x"}, {"type": "cancel", "id": "c"})
    *events, last = done.stdout.splitlines()
    assert len(events) == 2 and last == "half a li"
    assert (done.returncode, done.stderr) == (3, "oh no\n")


async def turn(agent: ScriptedAgent, text: str = "hi", **spec: Any) -> list[Event]:
    session = await agent.open(SessionSpec.of(cwd=".", **spec))
    return [event async for event in run_turn(session, text)]


async def test_a_step_can_wait_ask_and_do_anything() -> None:
    gate, seen = asyncio.Event(), []

    async def step(session: ScriptedSession, turn: Turn) -> None:
        seen.append((session.id, turn.prompt.text))

    agent = ScriptedAgent([gate, Asked(request="q", kind="question", text="?"), step])
    session = await agent.open(SessionSpec.of(cwd=".", answers=True))
    reader = session.events()
    await session.prompt(Prompt(text="go"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not [event for event in reader.ready() if isinstance(event, Asked)], "it waits before it asks"
    gate.set()
    async for event in reader:
        if isinstance(event, Asked):
            for _ in range(20):
                await asyncio.sleep(0)
            assert not seen, "it waits for the answer"
            seen.append((event.request, event.text))
            await session.answer("q", Answer(decision="allow"))
        if isinstance(event, TurnEnded):
            break
    assert seen == [("q", "?"), (session.id, "go")]
