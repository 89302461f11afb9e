"""One contract over every driver, from recordings: a real process plays the agent. A new driver is found by its folder
of recordings, which `make record-agents` makes with the real program."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.scenarios import (
    HELLO,
    NAMED,
    PATIENCE,
    SCENARIOS,
    USED,
    Played,
    Scenario,
    check_always,
    fits,
    go_through,
    play,
)
from treadle.agents import _load
from treadle.drivers.agent import PATIENCE as USUAL
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Card, cards
from treadle.drivers.launch import Launch
from treadle.drivers.session import DrivenSession
from treadle.events import ToolDenied, ToolEnded, TurnEnded, Usage, Warned
from treadle.io.peer import Patience
from treadle.io.process import table
from treadle.session import Access, Limits, Prompt, SessionSpec

HERE = Path(__file__).parent
RECORDED = {name: card for name, card in cards().items() if (HERE / name / "recordings").is_dir()}
CASES = [(card, scenario) for card in RECORDED.values() for scenario in SCENARIOS if fits(card, scenario)]
ENDING = {"exit": "peer_exited", "crash": "peer_exited", "cut": "peer_exited", "giant": "line_too_long"}


UNHURRIED = Patience(cancel=60.0, shutdown=2.0, grace=1.0)
"""For what shows what an agent does and not how soon: `tests/live` holds it to the two seconds."""


def replayed(
    card: Card,
    recording: str,
    *more: str,
    environ: dict[str, str] | None = None,
    patience: Patience = USUAL,
    noted: Path | None = None,
) -> DrivenAgent:
    """The agent, played from a recording: its name, or the path of one. What it hears is written to `noted`."""
    place = Path(recording) if recording.endswith(".jsonl") else HERE / card.name / "recordings" / f"{recording}.jsonl"
    recorder = (sys.executable, "-S", "-m", "treadle.testing.record", str(noted)) if noted else ()
    argv = (*recorder, sys.executable, "-S", "-m", "treadle.testing.replay", str(place), *more)
    source = str(Path(sys.modules["treadle"].__file__ or "").parents[1])
    sets = {"PYTHONPATH": source}
    launch = Launch(argv=argv, environment=card.environment, sets=sets)
    made = _load(card.driver)(card, launch, environ={"PATH": os.environ["PATH"], **(environ or {})}, patience=patience)
    assert isinstance(made, DrivenAgent)
    return made


def gone(played: Played) -> bool:
    tree = played.session.peer.child.tree  # type: ignore[attr-defined]
    return tree.processes() == []


@pytest.mark.parametrize(("card", "scenario"), CASES, ids=lambda case: case.name)
async def test_a_recorded_agent_keeps_the_contract(card: Card, scenario: Any, tmp_path: Path) -> None:
    async with play(replayed(card, scenario.name, patience=UNHURRIED), scenario, tmp_path) as played:
        check_always(played)
        scenario.check(played)
    assert gone(played)


RESUMED = [card for card in RECORDED.values() if (HERE / card.name / "recordings" / "resumed.jsonl").exists()]


@pytest.mark.parametrize("card", RESUMED, ids=lambda card: card.name)
async def test_a_session_that_goes_on_counts_only_what_is_new(card: Card, tmp_path: Path) -> None:
    scenario = Scenario("resumed", ("[[hello]] once more",), lambda played: None)
    async with play(replayed(card, "resumed"), scenario, tmp_path, resume="the-old-one") as played:
        check_always(played)
        assert played.ends[0].text == HELLO
        if used := played.of(Usage):
            assert sum(usage.output_tokens for usage in used) == USED.output


@pytest.mark.parametrize("fault", ["exit", "crash", "cut", "giant", "garbage", "flood"])
@pytest.mark.parametrize("card", RECORDED.values(), ids=lambda card: card.name)
async def test_a_turn_ends_once_whatever_the_agent_does(card: Card, fault: str, tmp_path: Path) -> None:
    async with play(replayed(card, "text", "--fault", fault, "--after", "3"), NAMED["text"], tmp_path) as played:
        check_always(played)
        (end,) = played.ends
        if fault in ENDING:
            assert end.outcome == "failed" and end.error is not None and end.error.code == ENDING[fault], end.error
            assert all(usage.cost_usd is None for usage in played.of(Usage)), "a cost that nobody told is not known"
        else:
            assert end.outcome == "completed"
            assert not played.of(Warned) or played.of(Warned)[0].code in ("tolerated", "agent", "not_enforced")
    assert gone(played)


@pytest.mark.parametrize("fault", ["hang", "deaf"])
@pytest.mark.parametrize("card", RECORDED.values(), ids=lambda card: card.name)
async def test_an_agent_that_hangs_is_ended_by_the_interrupt(card: Card, fault: str, tmp_path: Path) -> None:
    agent = replayed(card, "text", "--fault", fault, "--after", "3")
    async with asyncio.timeout(PATIENCE):
        session = await agent.open(SessionSpec.of(cwd=str(tmp_path)))
        reader = session.events()
        before = session.heard_at
        turn = await session.prompt(Prompt(text="[[hello]]"))
        while session.heard_at == before:
            await asyncio.sleep(0.01)
        await session.interrupt(turn, "enough")
        events = [event for event in reader.ready() if event.turn == turn]
        assert isinstance(events[-1], TurnEnded) and events[-1].outcome == "interrupted"
        assert session.peer.gone
        await session.close()


@pytest.mark.parametrize("card", RECORDED.values(), ids=lambda card: card.name)
async def test_an_agent_that_hangs_is_ended_by_the_time_limit(card: Card, tmp_path: Path) -> None:
    agent = replayed(card, "text", "--fault", "hang", "--after", "3")
    async with play(agent, NAMED["text"], tmp_path, limits=Limits(max_seconds=0.5)) as played:
        check_always(played)
        assert played.ends[0].outcome == "limited" and played.ends[0].stop_reason == "timeout"


@pytest.mark.parametrize("how", ["close", "crash"])
@pytest.mark.parametrize("card", RECORDED.values(), ids=lambda card: card.name)
async def test_what_an_agent_started_is_gone_after_it(card: Card, how: str, tmp_path: Path) -> None:
    faults = ["--fault", "crash", "--after", "2"] if how == "crash" else []
    async with play(replayed(card, "text", "--child", "sleep 1000", *faults), NAMED["text"], tmp_path) as played:
        assert len(played.ends) == 1
    assert gone(played)


@pytest.mark.parametrize("card", RECORDED.values(), ids=lambda card: card.name)
async def test_no_prompt_and_no_key_is_on_a_command_line(card: Card, tmp_path: Path) -> None:
    agent = replayed(card, "text", environ={"ANTHROPIC_API_KEY": "s3cret", "OPENAI_API_KEY": "s3cret"})
    spec = SessionSpec.of(cwd=str(tmp_path), system_prompt="a secret persona", append_system_prompt="a secret addition")
    async with asyncio.timeout(PATIENCE):
        session = await agent.open(spec)
        words = table.command_line(session.peer.child.pid)
        await go_through(session, NAMED["text"])
        await session.close()
    assert not [word for word in words if "secret" in word or "s3cret" in word or "[[hello]]" in word]


@pytest.mark.parametrize("card", RECORDED.values(), ids=lambda card: card.name)
def test_what_an_outer_agent_has_set_is_not_passed_on(card: Card) -> None:
    outer = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CODEX_SANDBOX", "CODEX_THREAD_ID")
    foreign = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DATABASE_PASSWORD")
    environ = {**dict.fromkeys((*outer, *foreign), "x"), "PATH": "/bin", "LANG": "C"}
    agent = _load(card.driver)(card, Launch(argv=("x",), environment=card.environment, sets=card.sets), environ=environ)
    seen = agent.env({})
    allowed = {name for name in foreign if name in card.environment}
    assert not seen.keys() & {*outer, *foreign} - allowed
    assert seen["PATH"] == "/bin"
    assert agent.env({"CODEX_SANDBOX": "mine"})["CODEX_SANDBOX"] == "mine", "what the person adds is passed on"


def test_every_driver_of_a_program_has_recordings() -> None:
    for card in cards().values():
        if not card.prefix and not card.untested:
            assert card.name in RECORDED, f"no recordings of {card.name}: make record-agents"
            missing = {
                scenario.name
                for scenario in SCENARIOS
                if fits(card, scenario) and not (HERE / card.name / "recordings" / f"{scenario.name}.jsonl").exists()
            }
            assert not missing


KILLED = """
import asyncio, sys
sys.path.insert(0, {root!r})
from tests.drivers.test_session import replayed, cards
from treadle.session import Prompt, SessionSpec
async def main():
    agent = replayed(cards()[{name!r}], "text", "--child", "sleep 1000", "--fault", "hang", "--after", "1")
    session = await agent.open(SessionSpec.of(cwd={cwd!r}))
    await session.prompt(Prompt(text="[[hello]]"))
    async for event in session.events():
        if event.__class__.__name__ in ("TextDelta", "Message", "Warned", "TurnStarted"):
            print(session.peer.child.pid, flush=True)
            await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("card", RECORDED.values(), ids=lambda card: card.name)
async def test_nothing_is_left_when_we_are_killed(card: Card, tmp_path: Path) -> None:
    code = KILLED.format(root=str(HERE.parents[1]), name=card.name, cwd=str(tmp_path))
    us = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(PATIENCE):
        assert us.stdout is not None
        pid = int(await us.stdout.readline())
        us.kill()
        await us.wait()
        while table.start_time(pid):
            await asyncio.sleep(0.02)


async def test_a_call_that_was_asked_about_late_and_denied_is_reported_as_denied(tmp_path: Path) -> None:
    """A slow agent asks after we have taken its call for one that runs."""
    session = await replayed(RECORDED["copilot"], "text").open(SessionSpec.of(cwd=str(tmp_path), mode="suggest"))
    assert isinstance(session, DrivenSession)
    access = Access(tool="bash", kind="execute", command="touch x")
    session.tool_started("c1", "bash", access)
    answer = await session.permit(access, call="c1")
    session.tool_ended("c1", "its own words", ok=True)
    events = [event for event in session.events().ready() if isinstance(event, ToolDenied | ToolEnded)]
    await session.close()
    assert answer.decision == "deny" and [type(event).__name__ for event in events] == ["ToolDenied", "ToolEnded"]
    assert isinstance(events[1], ToolEnded) and not events[1].ok and events[1].result.startswith("not allowed")
