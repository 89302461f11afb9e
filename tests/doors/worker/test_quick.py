import asyncio
import json
import os
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.agent.native import NativeAgent
from treadle.doors.worker.door import Worker
from treadle.doors.worker.quick import MODES, Promise, first_line, promise, settled
from treadle.errors import StorageError
from treadle.io.streams import pair
from treadle.session import Agent, Mode
from treadle.testing.sessions import ScriptedAgent

CONFIG = {"model": "vendor/m", "system_prompt": "s", "tools": ["bash"]}
INIT = {"type": "init", "id": "1", "protocol_version": "0.2.0", "config": CONFIG}
KEY = {"OPENROUTER_API_KEY": "k"}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def line(init: Any = INIT, **config: Any) -> bytes:
    return json.dumps({**init, "config": {**init["config"], **config}}).encode() + b"\n"


async def through_the_door(
    data: bytes, environ: dict[str, str], promised: Promise | None = None, agent: Agent | None = None
) -> list[Any]:
    client, server = pair()
    worker = Worker(agent or ScriptedAgent(), server, environ=environ, warn=str, ahead=data, promised=promised)
    client.close_write()
    assert await asyncio.wait_for(worker.run(), 60) == 0
    server.close()
    parts = []
    while data := await client.read():
        parts.append(data)
    return [json.loads(part) for part in b"".join(parts).splitlines()]


def test_a_plain_init_is_answered_at_once() -> None:
    made = promise(line(), KEY)
    assert made is not None
    assert json.loads(made.line) == {
        "type": "init_ok",
        "id": "1",
        "session_id": made.session_id,
        "protocol_version": "0.2.0",
    }


@pytest.mark.parametrize(
    ("data", "environ"),
    [
        (line(), {}),
        (line(), {"OPENROUTER_API_KEY": " "}),
        (line(model="m"), KEY),
        (line(model="scripted:x/y"), KEY),
        (line(model=""), KEY),
        (line(capabilities=["cwd"], cwd="/"), KEY),
        (line(capabilities=[1]), KEY),
        (line(capabilities=None), KEY),
        (line(approval_mode="careful"), KEY),
        (line(approval_mode=["plan"]), KEY),
        (line(approval_mode=""), KEY),
        (line(max_iterations=0), KEY),
        (line(max_iterations=True), KEY),
        (line(tools=[1]), KEY),
        (line(tools=["mcp__x__y"]), KEY),
        (line(task_id=5), KEY),
        (line({**INIT, "protocol_version": "1.0.0"}), KEY),
        (line({**INIT, "protocol_version": 0.5}), KEY),
        (line({**INIT, "id": "a\nb"}), KEY),
        (line({**INIT, "id": 7}), KEY),
        (line({**INIT, "type": "send"}), KEY),
        (line()[:-1], KEY),
        (b"[]\n", KEY),
        (b"\xff\n", KEY),
        (b"[" * 100_000 + b"\n", KEY),
        (line(), {**KEY, "HEDDLE_APPROVAL_MODE": "careful"}),
        (line(), {**KEY, "HEDDLE_PROTOCOL_VERSION": "1.0.0"}),
        (line(), {**KEY, "HEDDLE_PROTOCOL_VERSION": "newest"}),
        (line(), {"HEDDLE_BASE_URL": "localhost"}),
    ],
)
def test_anything_that_needs_thought_is_left_to_the_door(data: bytes, environ: dict[str, str]) -> None:
    assert promise(data, environ) is None


def test_settings_that_must_be_read_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settled(KEY)
    assert not settled({**KEY, "TREADLE_MAX_TOKENS": "many"})
    os.makedirs("inner/.treadle")
    os.mkdir("inner/folder")
    monkeypatch.chdir("inner/folder")
    assert not settled(KEY)


@pytest.mark.parametrize(
    ("data", "environ"),
    [
        (line({**INIT, "protocol_version": "0.5.0"}, tools=["grep", "bash", "fly", "bash"]), KEY),
        (line({**INIT, "protocol_version": "0.99.0", "id": 'a"\\'}, capabilities=["steer", "x", "answers"]), KEY),
        (
            line({**INIT, "protocol_version": None}, capabilities=["answers", "approval_mode"], approval_mode="plan"),
            KEY,
        ),
        (line(app_attribution={"title": 1}, runtime=None, x=[{}]), KEY),
        (line(), {**KEY, "HEDDLE_APPROVAL_MODE": " suggest "}),
        (line({**INIT, "protocol_version": "0.5.0"}), {**KEY, "HEDDLE_PROTOCOL_VERSION": "0.4.0"}),
    ],
)
async def test_a_quick_answer_is_the_doors_own_to_the_byte(data: bytes, environ: dict[str, str]) -> None:
    made = promise(data, environ)
    assert made is not None
    client, server = pair()
    worker = Worker(NativeAgent(environ), server, environ=environ, warn=str, ahead=data)
    client.close_write()
    assert await asyncio.wait_for(worker.run(), 60) == 0
    answer = await client.read()
    assert answer.replace(json.loads(answer)["session_id"].encode(), made.session_id.encode()) == made.line


def test_the_modes_are_those_of_a_session() -> None:
    assert MODES == set(get_args(Mode))


async def test_what_was_promised_is_kept_and_not_said_twice() -> None:
    made = promise(line(), KEY)
    send = b'{"type":"send","id":"2","message":"hi"}\n'
    event, result = await through_the_door(line() + send, KEY, made)
    assert made is not None and event["session_id"] == result["session_id"] == made.session_id
    assert result["response"] == "hi"


async def test_a_promise_that_cannot_be_kept_is_told_to_every_send() -> None:
    client, server = pair()
    agent, said = ScriptedAgent(refuses=StorageError("the disk is full")), []
    send = b'{"type":"send","id":"2","message":"hi"}\n{"type":"status","id":"3"}\n'
    made = promise(line(), KEY)
    worker = Worker(agent, server, environ=KEY, warn=said.append, ahead=line() + send, promised=made)
    client.close_write()
    assert await asyncio.wait_for(worker.run(), 60) == 0
    answers = [json.loads(part) for part in (await client.read()).splitlines()]
    assert [(answer["id"], answer["error"]["message"]) for answer in answers] == [
        ("2", "the disk is full"),
        ("3", "the disk is full"),
    ]
    assert said == ["the disk is full"]


values = st.one_of(st.none(), st.booleans(), st.integers(-1, 9), st.text(max_size=5), st.lists(st.text(max_size=3)))
plain = {
    "model": st.sampled_from(["v/m", "m", ""]),
    "system_prompt": st.text(max_size=9),
    "tools": st.lists(st.sampled_from(["bash", "glob", "read_file", "fly"]), max_size=3),
}
others = ("task_id", "worker_id", "max_iterations", "cwd", "x", "approval_mode", "capabilities")
configs = st.one_of(
    st.fixed_dictionaries(plain, optional={name: values for name in others}),
    st.dictionaries(st.sampled_from([*plain, *others]), values),
)
inits = st.fixed_dictionaries(
    {"type": st.just("init"), "id": st.one_of(st.just("1"), st.text(max_size=4), st.integers()), "config": configs},
    optional={"protocol_version": st.sampled_from(["0.2.0", "0.3.0", "0.4.0", "0.2.1", "0.5.0", "1.0.0", "x", None])},
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(inits, st.booleans(), st.integers(0, 400), st.sampled_from([b"", b",", b"NaN", b"}", b'"', b"\\ud800"]))
def test_a_quick_answer_is_the_doors_own_answer(init: Any, escape: bool, at: int, junk: bytes) -> None:
    data = json.dumps(init, ensure_ascii=escape).encode()
    data = data[:at] + junk + data[at:] + b"\n"
    made = promise(data, KEY)
    if made is not None:
        [answer] = asyncio.run(through_the_door(data, KEY, agent=NativeAgent(KEY)))
        assert answer | {"session_id": made.session_id} == json.loads(made.line)
        assert answer["type"] == "init_ok" and "error" not in answer


def test_the_first_line_is_read_with_what_came_with_it() -> None:
    read, write = os.pipe()
    os.write(write, b"one\ntwo")
    os.close(write)
    assert first_line(read) == b"one\ntwo"
    assert first_line(read) == b""
    os.close(read)
