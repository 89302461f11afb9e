"""What an agent does not declare, asked for over every door: refused or warned about where it was asked, never lost.

The agents are played from recordings of the real programs, through the installed command, and what they hear is
written down: what was refused, none of them has heard of.
"""

import asyncio
import base64
import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import msgspec
import pytest

from tests.agent.test_images import png
from tests.drivers.programs import CACHE, PROGRAMS
from tests.drivers.scenarios import OTHER, PATIENCE
from tests.drivers.test_session import HERE
from tests.installed import TREADLE
from tests.sessions.test_abilities import WISHES
from tests.stand_ins import RECORD, REPLAY
from treadle.agents import find_agent
from treadle.doors.worker.door import WORKING
from treadle.drivers.card import cards
from treadle.errors import TreadleError
from treadle.events import Failed, ToolStarted, TurnEnded, Warned
from treadle.session import Change, Confinement, Mode, Prompt, SessionSpec
from treadle.sessions.abilities import ABILITIES, can
from treadle.sessions.totals import run_turn

KEPT = CACHE / "doors.json"
POLICY = "cannot be made to follow the order's policy"
"""The reason of a sidecar, whose orders state which tools may be used."""
OWN_PROGRAM = "cannot use your tools and hooks"
"""The library's, about a program's own."""
DENIALS = ("was denied", "approved only with another input", '"command": "touch marker.txt"')
"""The warning, the words for the model, and the denied calls in the result of a run."""
ID = "6f1f8c86-2f3f-4a1e-9d0f-0d1c6f3a9d11"


class Place(NamedTuple):
    agent: str
    work: Path
    env: dict[str, str]
    noted: Path
    """What the agent heard."""

    def heard(self) -> str:
        return self.noted.read_text() if self.noted.exists() else ""

    async def run(self, *words: str, given: str = "") -> str:
        """What the installed command says, on both of its streams."""
        process = await asyncio.create_subprocess_exec(
            *(TREADLE, *words),
            env=self.env,
            cwd=self.work,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate(given.encode())
        return out.decode()


@contextlib.contextmanager
def playing(name: str, recording: str, tmp_path: Path) -> Any:
    """A person's settings, in which this agent is the recording."""
    home, work, noted = tmp_path / "home", tmp_path / "work", tmp_path / "heard"
    for folder in (home, work):
        folder.mkdir()
    player = [sys.executable, "-S", RECORD, str(noted)]
    player += [
        sys.executable,
        "-S",
        REPLAY,
        str(HERE / name / "recordings" / f"{recording}.jsonl"),
    ]
    source = str(Path(sys.modules["treadle"].__file__ or "").parents[1])
    command = json.dumps(" ".join(player))
    (home / "config.toml").write_text(
        f"[agents.{name}]\ncommand = {command}\nset = {{PYTHONPATH = {json.dumps(source)}}}\n"
    )
    bins = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {"HOME": str(home), "PATH": bins, "LANG": "C.UTF-8", "TREADLE_HOME": str(home)}
    yield Place(name, work, env, noted)


# What each door can be asked for...

OPTIONS: dict[str, tuple[str, ...]] = {
    "effort": ("--effort", "low"),
    "fork": ("--resume", ID, "--fork-session"),
    "resume": ("--resume", ID),
    "session_id": ("--session-id", ID),
    "servers": ("--mcp-config", '{"mcpServers": {"notes": {"command": "true"}}}'),
    "servers_alone": ("--strict-mcp-config",),
    "sources": ("--setting-sources", "user"),
    "bare": ("--bare",),
    "plugins": ("--plugin-dir", "."),
    "session_name": ("--name", "x"),
    "unsaved": ("--no-session-persistence",),
    "add_dirs": ("--add-dir", "."),
    "toolset": ("--tools", "read"),
    "subagents": ("--agents", '{"a": {"description": "d", "prompt": "p"}}'),
    "cost": ("--max-budget-usd", "1"),
    "iterations": ("--max-turns", "3"),
    "tuning": ("--small",),
}


async def oneshot(place: Place, ability: str) -> str:
    return await place.run(
        *("-p", "--agent", place.agent, "[[hello]]", "--output-format", "json", "--permission-mode", "suggest"),
        *OPTIONS[ability],
    )


async def images(place: Place) -> str:
    """A record of a program that drives us as if we were Claude Code."""
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png()).decode()}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "[[hello]]"}]
    record = {"type": "user", "message": {"role": "user", "content": content}}
    words = ("-p", "--agent", place.agent, "--input-format", "stream-json", "--output-format", "stream-json")
    return await place.run(*words, "--verbose", given=json.dumps(record) + "\n")


async def chained(place: Place, ability: str, wire: str) -> str:
    """Our own client of that wire asks for it."""
    agent = find_agent(f"{wire}:{TREADLE} {wire} --agent {place.agent}", {})
    spec = WISHES.get(ability, SessionSpec(cwd="/"))
    if spec.start.resume is not None:
        spec = msgspec.structs.replace(spec, start=msgspec.structs.replace(spec.start, resume=ID))
    mode: Mode = "full-auto" if wire == "sidecar" else "suggest"  # a sidecar asks no one
    walls = Confinement(use="off")  # around the door; not what is asked here
    spec = msgspec.structs.replace(spec, cwd=str(place.work), env=place.env, mode=mode, confinement=walls)
    words: list[str] = []
    try:
        session = await agent.open(spec)
    except TreadleError as error:
        return str(error)
    try:
        if ability in ("switch_model", "mode"):
            await session.configure(Change(model="m") if ability == "switch_model" else Change(mode="plan"))
        async for event in run_turn(session, "[[hello]]"):
            if isinstance(event, Warned):
                words.append(event.message)
            elif isinstance(event, Failed | TurnEnded) and event.error is not None:
                words.append(event.error.message)
        words += [event.message for event in session.events(0).ready() if isinstance(event, Warned)]
    except TreadleError as error:
        words.append(str(error))
    finally:
        await session.close()
    return "\n".join(words)


async def as_worker(place: Place, ability: str) -> str:
    """Its warnings are on its stderr, because its messages have no place for them."""
    config: dict[str, Any] = {"model": "", "system_prompt": "", "tools": ["read_file", *WORKING]}
    config |= {"toolset": {"tools": ["read_file"]}, "iterations": {"max_iterations": 3}}[ability]
    requests = [
        {"type": "init", "id": "1", "config": config},
        {"type": "send", "id": "2", "message": "[[hello]]"},
        {"type": "shutdown", "id": "3"},
    ]
    return await place.run("worker", "--agent", place.agent, given="".join(f"{json.dumps(one)}\n" for one in requests))


async def steered(place: Place) -> str:
    """A message to a running agent behind a worker."""
    agent = find_agent(f"worker:{TREADLE} worker --agent {place.agent}", {})
    walls = Confinement(use="off")
    spec = SessionSpec.of(cwd=str(place.work), env=place.env, mode="full-auto", confinement=walls)
    session = await agent.open(spec)
    try:
        reader = session.events()
        turn = await session.prompt(Prompt(text="[[sleep]]"))
        async for event in reader:
            if isinstance(event, ToolStarted):
                break
        try:
            accepted = await session.steer(turn, "MARKED")
        except TreadleError as error:
            return str(error)
        return "it was accepted" if accepted else ABILITIES["steer"].refusal
    finally:
        await session.close()


async def changed(place: Place) -> str:
    """Claude's SDK, which takes us for Claude Code, approves a call with another input."""
    import claude_agent_sdk as sdk

    wrapper = place.work.parent / "as-claude"
    wrapper.write_text(f'#!/bin/sh\nexec {TREADLE} --agent "{place.agent}" "$@"\n')
    wrapper.chmod(0o755)

    async def decide(name: str, given: dict[str, Any], context: Any) -> Any:
        return sdk.PermissionResultAllow(updated_input={**given, "command": OTHER})

    options = sdk.ClaudeAgentOptions(cli_path=str(wrapper), cwd=str(place.work), env=place.env, can_use_tool=decide)
    async with sdk.ClaudeSDKClient(options=options) as client:
        await client.query("[[touch]]")
        async for message in client.receive_response():
            if isinstance(message, sdk.ResultMessage):
                return json.dumps([denied["tool_input"] for denied in message.permission_denials or []])
    return ""


async def mcp(place: Place, ability: str) -> str:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    args = ["mcp", "--agent", place.agent, "--permission-mode", "suggest"]
    server = StdioServerParameters(command=TREADLE, args=args, env=place.env, cwd=str(place.work))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        wanted = {"resume": {"resume": ID}, "model": {"model": "m"}}[ability]
        told = await client.call_tool("run", {"prompt": "[[hello]]", **wanted})
        return str(told.structured_content) + str(told.content)


ANOTHER = {"updatedInput": {"command": OTHER}}
"""What a client adds to an approval whose call its person has changed."""


async def talk(place: Place, *words: str, opening: Any, reply: Callable[[Any], Any]) -> str:
    """All that a door says; `reply` gives what it is told after each line, and None at the end."""
    link = await asyncio.create_subprocess_exec(
        *(TREADLE, *words, "--agent", place.agent),
        env=place.env,
        cwd=place.work,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert link.stdin is not None and link.stdout is not None
    heard, more = "", [opening]
    while more is not None:
        link.stdin.write("".join(f"{json.dumps(one)}\n" for one in more).encode())
        line = (await link.stdout.readline()).decode()
        assert line, heard
        heard, more = heard + line, reply(json.loads(line))
    link.stdin.close()
    await link.wait()
    return heard


async def editor(place: Place, ability: str) -> str:
    """An editor whose person approves another input."""

    def call(id: str, method: str, **params: Any) -> Any:
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}

    def reply(told: Any) -> Any:
        if told.get("method") == "session/request_permission":
            outcome = {"outcome": "selected", "optionId": told["params"]["options"][0]["optionId"], **ANOTHER}
            return [{"jsonrpc": "2.0", "id": told["id"], "result": {"outcome": outcome}}]
        if told.get("id") == "greet":
            return [call("open", "session/new", cwd=str(place.work), mcpServers=[])]
        if told.get("id") == "open":
            prompt = [{"type": "text", "text": "[[touch]]"}]
            return [call("turn", "session/prompt", sessionId=told["result"]["sessionId"], prompt=prompt)]
        return None if told.get("id") == "turn" else []

    greeting = call("greet", "initialize", protocolVersion=1, clientCapabilities={})
    return await talk(place, "acp", "--permission-mode", "suggest", opening=greeting, reply=reply)


async def of_worker(place: Place, ability: str) -> str:
    """A client of a worker that approves another input."""
    config: dict[str, Any] = {"model": "", "system_prompt": "", "tools": ["read_file", *WORKING]}
    config |= {"capabilities": ["answers", "approval_mode"], "approval_mode": "suggest"}

    def reply(told: Any) -> Any:
        if told["type"] == "init_ok":
            return [{"type": "send", "id": "2", "message": "[[touch]]"}]
        if told["type"] == "event" and told["event"]["event"] == "permission_request":
            about = {"target_id": "2", "request_id": told["event"]["request_id"], "decision": "allow"}
            return [{"type": "answer", "id": "3", **about, "args": {"command": OTHER}}]
        return None if told["type"] in ("result", "error") else []

    opening = {"type": "init", "id": "1", "config": config}
    return await talk(place, "worker", opening=opening, reply=reply)


async def app_server(place: Place, ability: str) -> str:
    """The messages of a program that drives Codex."""
    thread: dict[str, Any] = {"cwd": str(place.work), "approvalPolicy": "untrusted"}
    turn: dict[str, Any] = {"input": [{"type": "text", "text": "[[hello]]"}]}
    image = {"type": "image", "url": f"data:image/png;base64,{base64.b64encode(png()).decode()}"}
    opening = {"resume": "thread/resume", "fork": "thread/fork"}.get(ability, "thread/start")
    thread |= {"threadId": ID} if opening != "thread/start" else {}
    thread |= {"config": {"mcp_servers": {"notes": {"command": "true"}}}} if ability == "servers" else {}
    thread |= {"ephemeral": True} if ability == "unsaved" else {}
    turn |= {"effort": {"effort": "low"}, "switch_model": {"model": "m"}}.get(ability, {})
    turn["input"][0]["text"] = {"steer": "[[sleep]]", "changed_input": "[[touch]]"}.get(ability, "[[hello]]")
    turn["input"] += [image] if ability == "images" else []
    on: dict[str, Any] = {}

    def reply(told: Any) -> Any:
        if told.get("method") == "item/commandExecution/requestApproval":
            return [{"id": told["id"], "result": {"decision": "accept", **ANOTHER}}]
        if "error" in told or told.get("method") == "turn/completed":
            return None
        if told.get("id") == 1:
            return [{"id": 2, "method": opening, "params": thread}]
        if told.get("id") == 2:
            on["threadId"] = told["result"]["thread"]["id"]
            return [{"id": 3, "method": "turn/start", "params": {**turn, **on}}]
        if told.get("id") == 3 and ability == "steer":
            more = {"input": [{"type": "text", "text": "MARKED"}], "expectedTurnId": told["result"]["turn"]["id"]}
            return [{"id": 4, "method": "turn/steer", "params": {**more, **on}}]
        return []

    greeting = {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}}
    return await talk(place, "app-server", opening=greeting, reply=reply)


async def a2a(place: Place, ability: str) -> str:
    """The messages of a client over HTTP."""
    words = ("a2a", "--agent", place.agent, "--port", "0", "--no-token", "--permission-mode", "suggest")
    server = await asyncio.create_subprocess_exec(
        *(TREADLE, *words), env=place.env, cwd=place.work, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    url = (await server.stdout.readline()).decode().strip()

    def call(method: str, **params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
        with urlopen(Request(url, json.dumps(body).encode(), headers), timeout=PATIENCE) as answer:
            return json.load(answer)

    async def send(*parts: Any, **more: Any) -> Any:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": parts, **more}
        return await asyncio.to_thread(
            call, "SendMessage", message=message, configuration={"returnImmediately": ability == "steer"}
        )

    try:
        task = (await send({"text": "[[sleep]]" if ability == "steer" else "[[touch]]"}))["result"]["task"]["id"]
        if ability == "steer":
            return json.dumps(await send({"text": "MARKED"}, taskId=task))
        return json.dumps(await send({"data": {"decision": "allow", "args": {"command": OTHER}}}, taskId=task))
    finally:
        server.terminate()
        await server.wait()


async def library(place: Place, ability: str) -> str:
    """A program of a user's own."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, str(Path(__file__).with_name("library_client.py")), place.agent, ability),
        env=place.env,
        cwd=place.work,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await program.communicate()
    return out.decode()


def over(wire: str) -> Callable[[Place, str], Awaitable[str]]:
    return lambda place, ability: chained(place, ability, wire)


def only(asked: Callable[[Place], Awaitable[str]]) -> Callable[[Place, str], Awaitable[str]]:
    return lambda place, ability: asked(place)


Door = Callable[[Place, str], Awaitable[str]]
DOORS: dict[str, dict[str, tuple[Door, str]]] = {
    "treadle -p": dict.fromkeys(OPTIONS, (oneshot, "text")),
    "stream-json": {"images": (only(images), "text"), "changed_input": (only(changed), "denied")},
    "worker": {
        **dict.fromkeys(("toolset", "iterations"), (as_worker, "text")),
        **dict.fromkeys(("cost", "resume"), (over("worker"), "text")),
        "steer": (only(steered), "interrupted"),
        "changed_input": (of_worker, "denied"),
    },
    "sidecar": dict.fromkeys(("toolset", "iterations", "cost"), (over("sidecar"), "text")),
    "acp": dict.fromkeys(("resume", "fork", "servers", "switch_model", "mode"), (over("acp"), "text"))
    | {"changed_input": (editor, "denied")},
    "app-server": dict.fromkeys(
        ("resume", "fork", "servers", "switch_model", "effort", "images", "unsaved"), (app_server, "text")
    )
    | {"steer": (app_server, "interrupted"), "changed_input": (app_server, "denied")},
    "mcp": dict.fromkeys(("resume", "model"), (mcp, "text")),
    "a2a": {"steer": (a2a, "interrupted"), "changed_input": (a2a, "denied")},
    "library": {
        **dict.fromkeys(
            (
                *("effort", "fork", "resume", "session_id", "session_name", "unsaved", "sources", "bare", "plugins"),
                *("skills", "toolset", "subagents", "hooks", "usage", "cost", "iterations", "repeats"),
            ),
            (library, "text"),
        ),
        "steer": (library, "interrupted"),
        "changed_input": (library, "denied"),
    },
}
"""By door, what it can be asked for: how, and the recording that is played. The rest its messages cannot say."""
CASES = [
    (door, ability, name)
    for door, asked in DOORS.items()
    for ability in asked
    for name in PROGRAMS
    if not can(cards()[name].capabilities, ability)
]


@pytest.mark.parametrize(("door", "ability", "name"), CASES)
async def test_what_an_agent_cannot_do_is_refused_or_warned_about(
    door: str, ability: str, name: str, tmp_path: Path
) -> None:
    ask, recording = DOORS[door][ability]
    keep(door, ability, name, "lost")
    with playing(name, recording, tmp_path) as place:
        async with asyncio.timeout(2 * PATIENCE):
            words = await ask(place, ability)
        heard = place.heard()
    if ability == "changed_input":
        assert any(denial in words for denial in DENIALS), "the denial is in the result"
        assert not (tmp_path / "work" / "marker.txt").exists()
        became = "denied"
    else:
        assert any(reason in words for reason in (ABILITIES[ability].refusal, POLICY, OWN_PROGRAM)), words
        told = "MARKED" if ability == "steer" else "[[hello]]"
        became = "warned" if told in heard else "refused"
        assert became == "refused" or ABILITIES[ability].routine, "it was refused, and the agent heard of it"
    keep(door, ability, name, became)


def keep(door: str, ability: str, name: str, became: str) -> None:
    found = kept()
    found.setdefault(door, {}).setdefault(ability, {})[name] = [became, time.strftime("%Y-%m-%d")]
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text(json.dumps(found))


def kept() -> dict[str, dict[str, dict[str, list[str]]]]:
    found: dict[str, dict[str, dict[str, list[str]]]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


def test_no_wish_was_lost_in_silence() -> None:
    """Runs last."""
    found = kept()
    tried = {case: found.get(case[0], {}).get(case[1], {}).get(case[2], [""])[0] for case in CASES}
    print(Counter(tried.values()))
    assert not [case for case, word in tried.items() if word == "lost"]
