"""An outside agent's model is reached through a gateway: its key stays outside, its calls are counted and limited."""

import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from treadle.agent.providers.script import Script, ScriptedReply, UsageLine
from treadle.drivers.acp.driver import AcpAgent
from treadle.drivers.card import Card, cards, launch_of
from treadle.drivers.model_wire import PLACE, WirePlan, planned, sign_ins, wired
from treadle.errors import BudgetExceeded, ConfigError
from treadle.events import TurnEnded, Usage, Warned
from treadle.gateway.recording import CallReplay, recordings
from treadle.io.sandbox import methods
from treadle.session import Amount, Confinement, Guards, Limits, ModelWire, SessionSpec
from treadle.sessions.session import BaseSession
from treadle.sessions.totals import run_turn
from treadle.settings.config import AgentSettings, Settings
from treadle.testing.server import ModelServer

MARK = os.urandom(8).hex()
"""In every key, and in no file: the tests themselves may be where an agent can read them."""
KEY = f"REAL-KEY-{MARK}"
USED = UsageLine(input=100, output=5, cache_read=20)
PROGRAM = Path(__file__).with_name("searching_agent.py")
KINDS = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY"),
    *("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY"),
    *("GROQ_API_KEY", "TREADLE_API_KEY", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY", "KIMI_MODEL_API_KEY"),
)
WIRES = {
    "gemini": ("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "/v1beta/models/m:generateContent"),
    "copilot": ("COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_API_KEY", "/chat/completions"),
    "kimi": ("KIMI_MODEL_BASE_URL", "KIMI_MODEL_API_KEY", "/chat/completions"),
    "qwen": ("OPENAI_BASE_URL", "OPENAI_API_KEY", "/chat/completions"),
}
confined = pytest.mark.skipif(methods.available().method is None, reason="this machine can confine nothing")


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer(Script(reply=(ScriptedReply(text="hello", usage=USED, times="always"),))) as server:
        yield server


def driven(name: str, home: Path, **variables: str) -> AcpAgent:
    card = cards()[name]
    command = f"{sys.executable} {PROGRAM} {' '.join(WIRES[name])} {MARK[::-1]}"
    settings = AgentSettings(command=command)
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TREADLE_HOME": str(home / "treadle"), **variables}
    launch = launch_of(card, settings, command=command)
    return AcpAgent(card, launch, environ=env)


async def told(session: BaseSession, prompt: str = "ask") -> tuple[dict[str, Any], list[Usage], TurnEnded, list[str]]:
    used, notes, ended, text = [], [], None, ""
    async for event in run_turn(session, prompt):
        used += [event] if isinstance(event, Usage) else []
        notes += [event.message] if isinstance(event, Warned) else []
        if isinstance(event, TurnEnded):
            ended, text = event, event.text
    assert ended is not None
    return json.loads(text or "{}"), used, ended, notes


def spec(cwd: Path, **more: Any) -> SessionSpec:
    return SessionSpec(cwd=str(cwd), mode="full-auto", **more)


@confined
@pytest.mark.parametrize("network", ["auto", "on"])
@pytest.mark.parametrize("name", WIRES)
async def test_a_confined_agent_uses_its_model_and_finds_no_key(
    name: str, network: Any, tmp_path: Path, model: ModelServer
) -> None:
    """None of 17 kinds, in its variables, its files, its processes and its logs, although all are set outside."""
    base, key, _ = WIRES[name]
    other = {kind: f"{MARK}-{kind}" for kind in KINDS if kind not in cards()[name].wire.unless}  # type: ignore[union-attr]
    others = {**other, key: KEY, base: f"{model.url}/v1" if name != "gemini" else model.url}
    session = await driven(name, tmp_path, **others).open(
        spec(tmp_path, confinement=Confinement(network=network, hosts=()))
    )
    try:
        answer, used, _, _ = await told(session, "search")
        wire = session.info.wire
    finally:
        await session.close()
    assert answer["status"] == 200 and answer["found"] == [] and KEY not in answer["said"]
    assert answer["base"].startswith("http://127.0.0.") and answer["key"].startswith("treadle-run-")
    assert wire is not None and (wire.way, wire.key) == ("gateway", "outside")
    assert model.asked[0].headers["x-goog-api-key"] == KEY
    assert [(one.input_tokens, one.output_tokens, one.cache_read_tokens) for one in used] == [(100, 5, 20)]


@confined
async def test_an_agent_whose_list_names_this_machine_still_reaches_the_gateway(
    tmp_path: Path, model: ModelServer
) -> None:
    base, key, _ = WIRES["gemini"]
    asked = spec(tmp_path, confinement=Confinement(use="on", network="off", hosts=("localhost:1",)))
    session = await driven("gemini", tmp_path, **{base: model.url, key: KEY}).open(asked)
    try:
        assert (await told(session))[0]["status"] == 200
    finally:
        await session.close()


async def test_without_a_sandbox_calls_are_counted_and_the_key_counts_as_inside(
    tmp_path: Path, model: ModelServer
) -> None:
    base, key, _ = WIRES["gemini"]
    proxied = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    asked = spec(tmp_path, confinement=Confinement(use="off"))
    session = await driven("gemini", tmp_path, **{base: model.url, key: KEY}, **proxied).open(asked)
    try:
        answer, used, _, _ = await told(session)
        wire = session.info.wire
    finally:
        await session.close()
    assert answer["status"] == 200 and len(used) == 1
    assert wire is not None and (wire.way, wire.key) == ("gateway", "inside") and "not confined" in wire.why


@pytest.mark.parametrize(
    ("name", "variables", "settings", "why"),
    [
        ("gemini", {}, {}, "none of GEMINI_API_KEY, GOOGLE_API_KEY is set"),
        ("gemini", {"GEMINI_API_KEY": KEY, "GOOGLE_GENAI_USE_VERTEXAI": "1"}, {}, "GOOGLE_GENAI_USE_VERTEXAI is set"),
        ("gemini", {"GEMINI_API_KEY": KEY}, {".gemini/settings.json": {"a": {"baseUrl": "x"}}}, "its settings name"),
        (
            "qwen",
            {"OPENAI_API_KEY": KEY},
            {".qwen/settings.json": {"a": {"b": [{"baseUrl": "x"}]}}},
            "its settings name",
        ),
        ("gemini", {"GEMINI_API_KEY": KEY}, {".gemini/settings.json": {"env": {"GEMINI_API_KEY": "y"}}}, "settings"),
        ("copilot", {"COPILOT_PROVIDER_API_KEY": KEY}, {}, "COPILOT_PROVIDER_BASE_URL is not set"),
        ("pi", {"OPENAI_API_KEY": KEY}, {".pi/agent/auth.json": {"openai": {"type": "oauth"}}}, "signed in by itself"),
        ("pi", {"OPENAI_API_KEY": KEY, "XAI_API_KEY": KEY}, {}, "XAI_API_KEY is set"),
    ],
)
def test_where_the_key_stays_inside_the_reason_is_named(
    name: str, variables: dict[str, str], settings: dict[str, Any], why: str, tmp_path: Path
) -> None:
    for path, table in settings.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(json.dumps(table))
    env = {"HOME": str(tmp_path), **variables}
    wire = planned(cards()[name], spec(tmp_path), Settings(), env)
    assert isinstance(wire, ModelWire) and (wire.way, wire.key) == ("direct", "inside") and why in wire.why
    with pytest.raises(ConfigError, match="cannot be used through the gateway"):
        planned(cards()[name], spec(tmp_path, model_wire="gateway"), Settings(), env)


@pytest.mark.parametrize("card", [card for card in cards().values() if card.wire], ids=lambda card: card.name)
def test_the_page_names_each_key_that_a_card_says_to_be_outside(card: Card) -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "model-wire.md"
    name = re.compile(rf"\b{card.title.split()[0]}\b")
    (row,) = [line for line in page.read_text().splitlines() if line.startswith("| ") and name.search(line[:22])]
    said, _, inside = sign_ins(card).partition("; inside with ")
    assert all(f"`{name}`" in row for name in re.findall("[A-Z]+_[A-Z_]+", said)) and "login" in row and inside


async def test_a_session_whose_gateway_is_switched_off_says_so(tmp_path: Path) -> None:
    agent = driven("gemini", tmp_path, GEMINI_API_KEY=KEY, TREADLE_MODEL_WIRE="direct")
    session = await agent.open(spec(tmp_path, confinement=Confinement(use="off")))
    wire = session.info.wire
    await session.close()
    assert wire is not None and (wire.way, wire.key) == ("direct", "inside") and "switched off" in wire.why
    assert "switched off" in agent.wire_in_words(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "key", "base"),
    [
        ("pi", "ANTHROPIC_API_KEY", "https://api.anthropic.com"),
        ("pi", "OPENAI_API_KEY", "http://127.0.0.1:9/v1"),
        ("opencode", "ANTHROPIC_API_KEY", "https://api.anthropic.com/v1"),
    ],
)
def test_an_agent_with_many_providers_is_led_by_its_settings_for_the_one_that_it_has_a_key_for(
    name: str, key: str, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "treadle"))
    (tmp_path / ".pi/agent").mkdir(parents=True)
    own = {"providers": {"openai": {"baseUrl": "http://127.0.0.1:9/v1"}}} if "OPENAI" in key else {}
    (tmp_path / ".pi/agent/models.json").write_text(json.dumps(own))
    plan = planned(cards()[name], spec(tmp_path), Settings(), {"HOME": str(tmp_path), key: KEY})
    assert isinstance(plan, WirePlan) and (plan.base_url, plan.keys) == (base, (key,))
    (content,) = plan.sets.values()
    assert PLACE in content and key.partition("_")[0].lower() in json.loads(content).popitem()[1]


@pytest.mark.parametrize(
    ("settings", "replaced"),
    [
        ("", ("OPENAI_API_KEY",)),
        (
            'model_provider = "own"\n[model_providers.own]\nbase_url = "http://127.0.0.1:9/v1"\nenv_key = "OWN_KEY"\n'
            'env_http_headers = { "X-Own" = "OWN_HEADER" }\n',
            ("OWN_KEY", "OWN_HEADER"),
        ),
    ],
)
async def test_codex_gets_none_of_its_keys_and_no_base_url_that_may_hold_one(
    settings: str, replaced: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "treadle"))
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text(settings)
    names = ("OPENAI_API_KEY", "CODEX_API_KEY", "OWN_KEY", "OWN_HEADER")
    env = {"HOME": str(tmp_path), "OPENAI_BASE_URL": f"http://u:{KEY}@127.0.0.1:9/v1"}
    env |= {name: KEY for name in names if not name.startswith("OWN") or name in replaced}
    asked, known = spec(tmp_path), Settings()
    plan = planned(cards()["codex"], asked, known, env)
    assert isinstance(plan, WirePlan) and plan.keys == replaced and plan.headers == (("X-Own",) if settings else ())
    led = await wired("codex", plan, asked, known, env, ["codex"], None)
    led.close()
    assert KEY not in str(led.env) and all(led.env[name].startswith("treadle-run-") for name in replaced)


async def test_a_recorded_run_is_replayed_without_service_and_key(
    tmp_path: Path, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "treadle"))
    base, key, _ = WIRES["kimi"]
    found = []
    for variables, more in (({base: f"{model.url}/v1", key: KEY}, {"record": "one"}), ({}, {"replay": None})):
        record = CallReplay("one") if "replay" in more else None
        asked = spec(tmp_path, confinement=Confinement(use="off"), **(more | {"replay": record}))
        session = await driven("kimi", tmp_path, **variables).open(asked)
        try:
            found.append((await told(session))[0]["said"])
        finally:
            await session.close()
    assert found[0] == found[1] and len(model.asked) == 1
    assert [each.id for each in recordings()] == ["one"]
    assert record is not None and (record.differences, record.run.agent, record.run.prompts) == (
        [],
        "kimi",
        ("ask",),
    )


async def test_a_call_beyond_the_budget_is_not_made_and_the_turn_says_why(tmp_path: Path, model: ModelServer) -> None:
    base, key, _ = WIRES["kimi"]
    agent = driven("kimi", tmp_path, **{base: f"{model.url}/v1", key: KEY})
    asked = spec(tmp_path, confinement=Confinement(use="off"), limits=Limits(max_tokens=350))
    session = await agent.open(asked)
    try:
        first = await told(session)
        second = await told(session)
    finally:
        await session.close()
    assert first[0]["status"] == 200 and any("limited to" in note for note in first[3])
    assert second[0]["status"] == 400 and "does not fit" in second[0]["said"]
    assert any("does not fit" in note for note in second[3])
    assert len(model.asked) == 1


async def test_who_decides_elsewhere_what_it_may_spend_is_asked_before_each_call(
    tmp_path: Path, model: ModelServer
) -> None:
    """As a fleet does: the turn ends with that reason at once, and can be continued."""
    told_of: list[Amount] = []
    ended: list[int] = []

    async def calling(spent: Callable[[], Amount], most: Amount) -> Callable[[], None]:
        told_of.append(spent())
        if told_of[-1][0]:
            raise BudgetExceeded("it has used 125 of 200 tokens")
        return lambda: ended.append(len(model.asked))

    base, key, _ = WIRES["kimi"]
    agent = driven("kimi", tmp_path, **{base: f"{model.url}/v1", key: KEY})
    session = await agent.open(spec(tmp_path, confinement=Confinement(use="off"), guards=Guards(calling=calling)))
    try:
        first, second = [(await told(session))[2] for _ in range(2)]
    finally:
        await session.close()
    assert first.outcome == "completed" and len(model.asked) == 1 and [tokens for tokens, _ in told_of] == [0, 125]
    assert ended == [1], "it is told when a call has ended"
    assert second.outcome == "limited" and second.error is not None and "125 of 200" in second.error.message
