"""Every agent over every wire, with the real programs: what works, judged by its effect, as a table in the docs."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.drivers.programs import CACHE, PROGRAMS, environment
from tests.drivers.scenarios import ALLOW, DENY, DONE, HELLO, NAMED, Scenario, Tools, go_through, script
from tests.installed import TREADLE
from tests.live.test_contract import sleeping
from treadle import __version__
from treadle.agents import find_agent
from treadle.drivers.card import cards
from treadle.errors import Unsupported
from treadle.events import TurnEnded
from treadle.session import Answer, SessionSpec
from treadle.testing.server import ModelServer

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "agents-matrix.md"
SECONDS = 240.0
"""A loaded machine needs minutes for two starts of the slowest."""
OURS = Tools(
    lambda command: ("bash", {"command": command}),
    lambda path, content: ("write_file", {"file_path": path, "content": content}),
)
CHAINED = {
    "worker:ours": "worker:treadle-worker",
    "sidecar:ours": "sidecar:treadle-sidecar",
    "acp:ours": "acp:treadle acp",
}
AGENTS = ["native", *(name for name in PROGRAMS if name in cards()), *CHAINED]
STEPS = ["text", "tool", "file", "allowed", "denied", "interrupted", "failed", "resumed"]
WORDS = {"allowed": "touch", "denied": "touch", "interrupted": "sleep", "failed": "fail", "file": "write"}
WHEN = "when"
"""Beside the steps of a cell: the version and the day."""
KEPT = CACHE / "matrix.json"
"""Results are kept beside the programs, so that a part of the table can be tried again."""


class Cannot(Exception):
    """Why there is nothing to try here."""


class Place(NamedTuple):
    """One cell's surroundings: an agent, its environment, a model, an empty directory."""

    agent: str
    env: dict[str, str]
    server: ModelServer
    work: Path

    def model_saw(self, text: str) -> bool:
        return any(text in json.dumps(request.body) for request in self.server.asked)


def prompt_of(step: str) -> str:
    return f"[[{WORDS.get(step, {'text': 'hello', 'resumed': 'hello'}.get(step, step))}]]"


# One run of treadle -p...


async def once(place: Place, prompt: str, *more: str, interrupt: bool = False) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(TREADLE, "-p", "--agent", place.agent, prompt, *more),
        env=place.env,
        cwd=place.work,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    if interrupt:
        while not sleeping() and process.returncode is None:
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGINT)
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def oneshot(place: Place, step: str, form: str) -> None:
    mode = ["--permission-mode", "suggest" if step in ("allowed", "denied") else "full-auto"]
    rule = ["--allowedTools", "Bash(touch marker.txt)"] if step == "allowed" else []
    code, out = await once(
        place, prompt_of(step), "--output-format", form, *mode, *rule, interrupt=step == "interrupted"
    )
    last = json.loads(out.splitlines()[-1]) if form != "text" and out.strip() else {}
    answer = out.strip() if form == "text" else str(last.get("result"))
    if step == "resumed":
        assert (code, answer) == (0, HELLO)
        which = ["--continue"] if form == "text" else ["--resume", last["session_id"]]
        code, _ = await once(place, "[[hello]] once more", "--output-format", form, *which)
        assert code == 0
    elif step == "failed":
        assert code == 1 and (form == "text" or last["is_error"])
    elif step == "interrupted":
        assert code == 0, f"exit code {code}"
    elif step != "denied":
        assert code == 0 and answer == (HELLO if step == "text" else DONE), (code, answer)
    if step == "text" and form == "stream-json":
        deltas = [json.loads(line)["event"]["delta"]["text"] for line in out.splitlines()[:-1] if "text_delta" in line]
        assert "".join(deltas) == HELLO


# Claude's SDK, which takes us for Claude Code...


async def sdk(place: Place, step: str) -> None:
    import claude_agent_sdk as sdk

    wrapper = place.work.parent / "as-claude"
    wrapper.write_text(f'#!/bin/sh\nexec {TREADLE} --agent "{place.agent}" "$@"\n')
    wrapper.chmod(0o755)

    async def decide(name: str, given: dict[str, Any], context: Any) -> Any:
        return sdk.PermissionResultAllow() if step == "allowed" else sdk.PermissionResultDeny(message="no")

    def options(**more: Any) -> Any:
        asking = step in ("allowed", "denied")
        return sdk.ClaudeAgentOptions(
            cli_path=str(wrapper),
            cwd=str(place.work),
            env=place.env,
            permission_mode=None if asking else "bypassPermissions",
            can_use_tool=decide if asking else None,
            **more,
        )

    result = await _sdk_turn(sdk, options(), prompt_of(step), interrupt=step == "interrupted")
    if step == "resumed":
        result = await _sdk_turn(sdk, options(resume=result.session_id), "[[hello]] once more")
        assert result.result == HELLO
    elif step == "failed":
        assert result is None or result.is_error
    elif step in ("text", "tool", "file", "allowed"):
        assert result.result == (HELLO if step == "text" else DONE)


async def _sdk_turn(sdk: Any, options: Any, prompt: str, *, interrupt: bool = False) -> Any:
    result = None
    try:
        async with sdk.ClaudeSDKClient(options=options) as client:
            await client.query(prompt)
            if interrupt:
                while not sleeping():
                    await asyncio.sleep(0.05)
                await client.interrupt()
            async for message in client.receive_response():
                result = message if isinstance(message, sdk.ResultMessage) else result
    except Exception:
        if result is None or not result.is_error:
            raise
    return result


# Wires that our own drivers speak too...


async def chained(place: Place, step: str, wire: str) -> None:
    if wire == "sidecar" and step in ("allowed", "denied", "resumed"):
        raise Cannot("a sidecar asks no one and remembers nothing")
    asking = step in ("allowed", "denied")
    mode = "suggest" if asking else "full-auto"
    if wire == "acp" and place.agent in CHAINED.values() and step in ("file", "interrupted"):
        if not place.agent.startswith("acp"):
            raise Cannot("an editor cannot change the mode of a worker or a sidecar, so no one allows the tool")
    agent = find_agent(f"{wire}:{TREADLE} {wire} --agent '{place.agent}'", {})
    answer: Answer | None = {"allowed": ALLOW, "denied": DENY}.get(step)
    scenario = Scenario(step, (prompt_of(step),), lambda played: None, interrupt=step == "interrupted", answer=answer)

    def spec(**more: Any) -> SessionSpec:
        return SessionSpec.of(cwd=str(place.work), env=place.env, mode=mode, answers=asking, **more)

    session = await agent.open(spec())
    try:
        played = await go_through(session, scenario, lambda: bool(sleeping()))
    finally:
        await session.close()
    end = played.ends[0]
    if step == "resumed":
        try:
            again = await agent.open(spec(resume=session.id))
        except Unsupported:
            raise Cannot(f"{place.agent} cannot go on with a session over this wire") from None
        try:
            assert (await go_through(again, NAMED["text"])).ends[0].text == HELLO
        finally:
            await again.close()
    elif step == "failed":
        assert end.outcome == "failed"
    elif step == "interrupted":
        assert end.outcome == "interrupted" and played.seconds < 5
    elif step != "denied":
        # Not every wire says where one message ends and the next begins.
        assert _said(end).endswith(HELLO if step == "text" else DONE), end


def _said(end: TurnEnded) -> str:
    return end.text if end.outcome == "completed" else f"{end.outcome}: {end.error}"


# MCP: an agent as a tool...


async def mcp(place: Place, step: str) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.types import ElicitResult

    async def elicited(context: Any, params: Any) -> Any:
        return ElicitResult(action="accept", content={"answer": "allow" if step == "allowed" else "deny"})

    mode = "suggest" if step in ("allowed", "denied") else "full-auto"
    args = ["mcp", "--agent", place.agent, "--permission-mode", mode]
    server = StdioServerParameters(command=TREADLE, args=args, env=place.env, cwd=str(place.work))

    @contextlib.asynccontextmanager
    async def connected() -> AsyncIterator[Callable[..., Any]]:
        async with (
            stdio_client(server) as (read, write),
            ClientSession(read, write, elicitation_callback=elicited) as client,
        ):
            await client.initialize()

            async def call(name: str, **arguments: Any) -> dict[str, Any]:
                found = (await client.call_tool(name, arguments)).structured_content
                return found if isinstance(found, dict) else {}

            yield call

    async with connected() as call:
        if step == "interrupted":
            said = await call("start", prompt=prompt_of(step))
            while not sleeping():
                await asyncio.sleep(0.05)
            assert (await call("cancel", run=said["run"]))["status"] == "interrupted"
            return
        said = await call("run", prompt=prompt_of(step))
    if step == "resumed":
        async with connected() as call:
            said = await call("run", prompt="[[hello]] once more", resume=said["session"])
    if step == "failed":
        assert "fail" in json.dumps(said)
    elif step != "denied":
        assert (HELLO if step in ("text", "resumed") else DONE) in json.dumps(said), said


WIRES: dict[str, Callable[[Place, str], Any]] = {
    "text": lambda place, step: oneshot(place, step, "text"),
    "json": lambda place, step: oneshot(place, step, "json"),
    "stream-json": lambda place, step: oneshot(place, step, "stream-json"),
    "worker": lambda place, step: chained(place, step, "worker"),
    "sidecar": lambda place, step: chained(place, step, "sidecar"),
    "acp": lambda place, step: chained(place, step, "acp"),
    "mcp": mcp,
    "Claude's SDK": sdk,
}


@pytest.fixture
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    name = request.param
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    program = PROGRAMS.get(name)
    played = script(program.tools, str(work) if program.absolute else "") if program else script(OURS)
    async with ModelServer(played, batch=False) as server:
        if program is not None:
            env = environment(name, home, server.url)
        else:
            bins = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            env = {"HOME": str(home), "PATH": bins, "LANG": "C.UTF-8", "TREADLE_HOME": str(home / "treadle")}
            env |= {"TREADLE_MODEL": "openai:scripted", "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
        monkeypatch.setenv("TREADLE_HOME", env["TREADLE_HOME"])  # a person has one
        yield Place(CHAINED.get(name, name), env, server, work)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("place", AGENTS, indirect=True)
async def test_a_cell(place: Place, wire: str, step: str, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["place"]
    keep(name, wire, step, "it did not work")
    if (reason := impossible(name, step)) is not None:
        keep(name, wire, step, reason)
        return
    try:
        async with asyncio.timeout(SECONDS):
            await WIRES[wire](place, step)
    except Cannot as why:
        keep(name, wire, step, str(why))
        return
    if step == "tool":
        assert place.model_saw("tool-output")
    if step == "resumed":
        assert json.dumps(place.server.asked[-1].body).count("[[hello]]") >= 2
    assert (place.work / "note.txt").exists() == (step == "file")
    assert (place.work / "marker.txt").exists() == (step == "allowed")
    assert sleeping() == []
    keep(name, wire, step, "ok")


def keep(name: str, wire: str, step: str, became: str) -> None:
    results = kept()
    version = PROGRAMS[name].version if name in PROGRAMS else __version__
    when = f"{version}, {time.strftime('%Y-%m-%d')}"
    results.setdefault(f"{name} {wire}", {}).update({step: became, WHEN: when})
    KEPT.write_text(json.dumps(results))


def kept() -> dict[str, dict[str, str]]:
    """What the page says, and what was seen here since: runs by agent and by part add up."""
    found = on_the_page(PAGE.read_text()) if PAGE.exists() else {}
    for cell, row in (json.loads(KEPT.read_text()) if KEPT.exists() else {}).items():
        found.setdefault(cell, {}).update(row)
    return found


def on_the_page(text: str) -> dict[str, dict[str, str]]:
    """The steps of each cell, with the version and the day of its agent, and the reasons of those that failed."""
    lines = text.splitlines()
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        if seen := re.fullmatch(r"- ([\w:]+) ([\d.]+, \d+-\d+-\d+)", line):
            found |= {f"{seen[1]} {wire}": dict.fromkeys(STEPS, "ok") | {WHEN: seen[2]} for wire in WIRES}
    for line in lines:
        if untried := re.fullmatch(r"- (\S+) over (.+): not tried yet", line):
            for wire in untried[2].split(", "):
                del found[f"{untried[1]} {wire}"]
        if why := re.fullmatch(r"- ([\w, ]+): (.+) \(([^()]+)\)", line):
            for part in why[3].split("; "):
                names, _, wires = part.partition(" over ")
                for name, wire in itertools.product(names.split(", "), WIRES if wires == "all" else wires.split(", ")):
                    found.get(f"{name} {wire}", {}).update(dict.fromkeys(why[1].split(", "), why[2]))
    return found


def impossible(name: str, step: str) -> str | None:
    """Why this agent cannot do this at all, whatever the wire."""
    card = cards().get(name.partition(":")[0])
    if name.startswith("sidecar") and step in ("allowed", "denied", "resumed"):
        return "a sidecar asks no one and remembers nothing"
    if card is not None and step == "resumed" and card.capabilities.get("resume") == "unsupported":
        return f"{name} cannot resume"
    return None


def test_the_results_are_a_table_in_the_docs() -> None:
    """Runs last: what the cells came to, in this run and in those before it."""
    results = kept()
    PAGE.write_text(page(results))


def page(results: dict[str, dict[str, str]]) -> str:
    lines = [
        "# Every agent over every wire",
        "",
        "Made by `make test-agents` with the real programs, each against a scripted model. Eight steps are judged by",
        "their effect: a turn with text, a tool, a file written, a permission allowed, one denied, an interrupt in the",
        "middle of a tool, a failure of the service, and a resumed session. Each agent was tried over",
        f"{', '.join(WIRES)}. All steps worked but those of the second list.",
        "",
    ]
    for name in AGENTS:
        days = {row[WHEN] for wire in WIRES if WHEN in (row := results.get(f"{name} {wire}", {}))}
        lines.append(f"- {name} {min(days, default='')}")
    lines.append("")
    reasons: dict[tuple[str, str], dict[str, list[str]]] = {}
    for name in AGENTS:
        for wire in WIRES:
            row = results.get(f"{name} {wire}", {})
            failed: dict[str, list[str]] = {}
            for step in STEPS if row else []:
                if row.get(step) != "ok":
                    failed.setdefault(row.get(step, "not tried yet"), []).append(step)
            for reason, steps in failed.items():
                reasons.setdefault((", ".join(steps), reason), {}).setdefault(name, []).append(wire)
        if untried := [wire for wire in WIRES if f"{name} {wire}" not in results]:
            lines.append(f"- {name} over {', '.join(untried)}: not tried yet")
    for (steps, reason), cells in reasons.items():
        over: dict[str, list[str]] = {}
        for name, wires in cells.items():
            over.setdefault(", ".join(wires) if len(wires) < len(WIRES) else "all", []).append(name)
        where = "; ".join(f"{', '.join(names)} over {wires}" for wires, names in over.items())
        lines.append(f"- {steps}: {reason} ({where})")
    return "\n".join(lines) + "\n"
