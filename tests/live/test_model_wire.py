"""The real programs through the gateway: the same events as without it, and no key where they can look."""

import ast
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.drivers import searching_agent
from tests.drivers.programs import KEY, PROGRAMS, environment, install
from tests.drivers.scenarios import DONE, HELLO, NAMED, Played, Scenario, play, script
from tests.drivers.test_model_wire import KINDS
from treadle.agent.providers.script import CallLine, Script, ScriptedReply, UsageLine
from treadle.agents import _load, wrapped
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import cards, launch_of
from treadle.events import Message, ToolEnded, ToolStarted, TurnEnded, TurnStarted, Usage, Warned
from treadle.gateway.recording import CallReplay
from treadle.io.sandbox import methods
from treadle.session import Limits
from treadle.settings.config import AgentSettings
from treadle.testing.server import ModelServer

SECRET = "REAL-KEY-of-the-person-0123456789"
LOOK = 'python3 -c \'import look; print([look.search(each[::-1].encode()) for each in ("nur-eldaert", "-YEK-LAER")])\''
"""For the placeholder, which is there, and for what all keys have; backwards, so that these words are not found."""


def _kimi(home: Path, url: str) -> dict[str, str]:
    return {
        "KIMI_MODEL_NAME": "scripted",
        "KIMI_MODEL_PROVIDER_TYPE": "openai",
        "KIMI_MODEL_BASE_URL": f"{url}/v1",
        "KIMI_MODEL_API_KEY": SECRET,
        "KIMI_MODEL_MAX_CONTEXT_SIZE": "100000",
        "KIMI_CODE_HOME": str(home / "kimi-by-variables"),
    }


def _qwen(home: Path, url: str) -> dict[str, str]:
    settings = {"security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}}}
    (home / ".qwen" / "settings.json").write_text(json.dumps({**settings, "model": {"name": "scripted"}}))
    return {"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": f"{url}/v1"}


def _opencode(home: Path, url: str) -> dict[str, str]:
    path = home / ".config" / "opencode" / "opencode.json"
    settings = json.loads(path.read_text())
    provider = {"options": {"baseURL": f"{url}/v1"}, "models": settings["provider"]["scripted"]["models"]}
    named = {"provider": {"openai": provider}, "model": "openai/scripted", "small_model": "openai/scripted"}
    path.write_text(json.dumps({**settings, **named, "permission": "allow"}))
    return {"OPENAI_API_KEY": SECRET}


def _pi(home: Path, url: str) -> dict[str, str]:
    folder = home / ".pi" / "agent"
    (folder / "models.json").write_text(json.dumps({"providers": {"openai": {"baseUrl": f"{url}/v1"}}}))
    (folder / "settings.json").write_text(json.dumps({"defaultProvider": "openai", "defaultModel": "gpt-5"}))
    return {"OPENAI_API_KEY": SECRET}


OTHERWISE: dict[str, Callable[[Path, str], dict[str, str]]] = {
    "kimi": _kimi,
    "opencode": _opencode,
    "pi": _pi,
    "qwen": _qwen,
}
"""Set up by variables alone: what these programs have in their settings goes before that."""
NAMES = sorted(PROGRAMS)
TURNS = Scenario("turns", ("[[tool]] please", "[[hello]] please"), lambda played: None)
LONG, KEPT = "It is long.", "<conversation>"
"""Pi keeps what was said last as it is, so that its request for a summary holds nothing between these marks."""
SUMMARY = r"(?i)summar|compact|state_snapshot|handoff"
BY_US = ("kimi",)
"""Its commands are run by us over ACP, in a sandbox of their own: there not even the placeholder is found."""
LONGEST = {"qwen": 120_000}
"""Tokens with which a conversation is too long, but not beyond hope; the others bear any number."""
COMPACTED = Scenario("compacted", ("[[full]] please", "[[hello]] please"), lambda played: None)


def driven(name: str, home: Path, url: str, *, others: bool = False) -> DrivenAgent:
    """`others`: a person has all other keys, too, but for those that would lead it to another service."""
    home.mkdir()
    card = cards()[name]
    env = {kind: f"{SECRET}-{kind}" for kind in KINDS if others and card.wire and kind not in card.wire.unless}
    if card.wire is not None and card.wire.form in ("opencode", "pi"):
        env = {kind: text for kind, text in env.items() if kind not in card.wire.keys}
    env |= {variable: text.replace(KEY, SECRET) for variable, text in environment(name, home, url).items()}
    env |= OTHERWISE.get(name, lambda home, url: {})(home, url)
    made = _load(card.driver)(
        card, launch_of(card, AgentSettings(command=str(install(name) / card.program))), environ=env
    )
    assert isinstance(made, DrivenAgent)
    return made


def told(played: Played) -> list[str]:
    kinds = (TurnStarted, ToolStarted, ToolEnded, Message, TurnEnded)
    return [type(event).__name__ for event in played.events if isinstance(event, kinds)]


@pytest.mark.skipif(methods.available().method is None, reason="this machine can confine nothing")
@pytest.mark.parametrize(
    "scenario", [TURNS, NAMED["interrupted"], NAMED["failed"], COMPACTED], ids=lambda scenario: scenario.name
)
@pytest.mark.parametrize("name", NAMES)
async def test_the_events_are_the_same_and_the_service_has_the_real_key(
    name: str, scenario: Scenario, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    tools = PROGRAMS[name].tools
    rows, calls = {}, []
    for way in ("direct", "gateway"):
        title, *replies = script(tools, str(work) if PROGRAMS[name].absolute else "").reply
        used = UsageLine(input=LONGEST.get(name, 990_000), output=5)
        full = ScriptedReply(when=r"\[\[full\]\]", text=LONG, usage=used)
        async with ModelServer(Script(reply=(title, full, *replies)), batch=False) as server:
            agent = driven(name, tmp_path / way, server.url)
            async with play(agent, scenario, work, model_wire=way) as played:
                wire = played.session.info.wire
            bodies = [str(one.body) for one in server.asked]
            after = [text for text in bodies if (LONG in text or KEPT in text) and "[[hello]]" not in text]
            calls.append((len(server.asked), sum(bool(re.search(SUMMARY, text)) for text in after)))
            keys = {text for one in server.asked for text in one.headers.values() if SECRET in text}
        rows[way] = told(played), [(end.outcome, re.sub(r"\d[\d.,:]*", "N", end.text)) for end in played.ends]
        assert wire is not None and wire.way == way and keys, "the service is given the real key"
    assert rows["gateway"] == rows["direct"]
    if scenario is COMPACTED:
        assert calls[0] == calls[1] and calls[0][1] >= 1, "a summary is asked for between the two prompts"
    if scenario is TURNS:
        assert rows["gateway"][1] == [("completed", DONE), ("completed", HELLO)]
        assert wire.key == "outside" and sum(one.input_tokens for one in played.of(Usage)) >= 200


@pytest.mark.skipif(methods.available().method is None, reason="this machine can confine nothing")
@pytest.mark.parametrize("name", NAMES)
async def test_a_command_of_the_program_finds_no_key(name: str, tmp_path: Path) -> None:
    """Of 17 kinds: in variables, words, memory (which is what a core dump has), files and logs."""
    work = tmp_path / "work"
    work.mkdir()
    shutil.copy(searching_agent.__file__, work / "look.py")
    tool, arguments = PROGRAMS[name].tools.shell(f"{LOOK} > seen.txt 2>&1")
    used = UsageLine(input=1, output=1)
    call = ScriptedReply(when="begin", call=(CallLine(name=tool, arguments=arguments, id="call_1"),), usage=used)
    title = ScriptedReply(system="You are a title generator", text="A title", usage=used, times="always")
    last = ScriptedReply(text=DONE, usage=used, times="always")
    async with ModelServer(Script(reply=(title, call, last)), batch=False) as server:
        agent = driven(name, tmp_path / "home", server.url, others=True)
        found = wrapped(agent, agent.card, agent.launch, environ=agent.environ)  # as for a person: one sandbox
        scenario = Scenario("search", ("begin",), lambda played: None)
        async with play(found, scenario, work, model_wire="gateway") as played:
            assert (work / "seen.txt").exists(), played.events
    there, keys = ast.literal_eval((work / "seen.txt").read_text())
    assert bool(there) == (name not in BY_US) and keys == []
    assert os.listdir(tmp_path / "home"), "it has a home to look through"


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_run_is_replayed_to_the_same_tree_and_a_changed_prompt_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "state"))
    work, home, program = tmp_path / "work", tmp_path / "home", PROGRAMS[name]
    trees, calls = [], []
    async with ModelServer(script(program.tools, str(work) if program.absolute else ""), batch=False) as server:
        for number, prompt in enumerate(("[[touch]] it", "[[touch]] it", "[[touch]] them")):
            work.mkdir()
            record = CallReplay("one") if number else None
            given: dict[str, object] = {"replay": record} if record is not None else {"record": "one"}
            scenario = Scenario("again", (prompt,), lambda played: None)
            async with play(driven(name, home, server.url), scenario, work, **given) as played:
                pass
            assert played.ends[0].text == DONE
            found = record.differences if record is not None else []
            assert bool(found) == prompt.endswith("them"), found
            trees.append(sorted(os.listdir(work)))
            calls.append(len(server.asked))
            for place in (work, home):
                place.rename(tmp_path / f"{place.name}-{number}")
    assert trees == [["marker.txt"]] * 3 and len(set(calls)) == 1


@pytest.mark.parametrize("name", NAMES)
async def test_a_limit_stops_it_before_the_call_that_does_not_fit_and_says_so(name: str, tmp_path: Path) -> None:
    """Each call takes 30,000 tokens of 70,000, and the model would go on for ever."""
    work = tmp_path / "work"
    work.mkdir()
    tool, arguments = PROGRAMS[name].tools.shell("echo again")
    used = UsageLine(input=30_000, output=10)
    calls = tuple(
        ScriptedReply(call=(CallLine(name=tool, arguments=arguments, id=f"call_{number}"),), usage=used)
        for number in range(20)
    )
    async with ModelServer(Script(reply=calls)) as server:
        scenario = Scenario("limit", ("go on",), lambda played: None)
        limits = Limits(max_tokens=70_000)
        async with play(driven(name, tmp_path / "home", server.url), scenario, work, limits=limits) as played:
            pass
        assert len(server.asked) <= 3
    (end,) = played.ends
    told = f"{end.error} {end.text} {[event.message for event in played.of(Warned)]}"
    assert "does not fit" in told or "tokens are used" in told, told
