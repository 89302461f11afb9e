"""Any sidecar as a session: our own, and the scripted one that misbehaves."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import calls, says
from treadle.agents import find_agent
from treadle.drivers.sidecar.driver import SidecarAgent
from treadle.drivers.sidecar.liveness import Timing
from treadle.errors import ConfigError, InvalidJson, PeerExited, PeerStalled
from treadle.events import (
    AnyEvent,
    Failed,
    FileChanged,
    Message,
    TextDelta,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Usage,
    Warned,
)
from treadle.io.process import table
from treadle.io.process.registry import keeper_trees
from treadle.session import Limits, Prompt, Rules, SessionSpec
from treadle.sessions.session import run_turn
from treadle.testing import bad_sidecar

QUICK = Timing(handshake=60, cancel_grace=0.5)
PINGING = Timing(handshake=60, cancel_grace=0.5, ping_every=0.2, pong_within=0.2, missed_pongs=2)
OURS = str(Path(sys.executable).parent / "treadle-sidecar")


def scripted(act: str, timing: Timing = QUICK) -> SidecarAgent:
    return SidecarAgent([sys.executable, "-I", "-S", str(bad_sidecar.__file__), act], timing=timing)


async def turn(agent: SidecarAgent, cwd: Path, text: str = "do it", **spec: Any) -> list[AnyEvent]:
    session = await agent.open(SessionSpec.of(**{"cwd": str(cwd), "mode": None, **spec}))
    try:
        return [event async for event in run_turn(session, text)]
    finally:
        await session.close()


def of(kind: type, events: list[AnyEvent]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_our_own_sidecar_is_the_native_agent_over_the_wire(tmp_path: Path) -> None:
    (tmp_path / "script.toml").write_text(
        calls(
            "write_file",
            {"path": "made.txt", "content": "made"},
            text="Writing.",
            usage={"input": 100, "output": 10},
        )
        + says("Done.", usage={"input": 200, "output": 5})
    )
    events = await turn(SidecarAgent(OURS), tmp_path, model=f"scripted:{tmp_path}/script.toml")
    assert (tmp_path / "made.txt").read_text() == "made"
    assert [event.text for event in of(Message, events)] == ["Writing.", "Done."]
    assert "".join(event.text for event in of(TextDelta, events)) == "Writing.Done."
    (started,) = of(ToolStarted, events)
    assert started.kind == "write" and started.paths == ("made.txt",)
    assert of(ToolEnded, events)[0].call == started.call
    assert of(FileChanged, events)[0].change == "added"
    assert sum(event.input_tokens for event in of(Usage, events)) == 300
    assert events[-1].outcome == "completed" and events[-1].text == "Done."


async def test_a_session_takes_several_turns_each_in_a_fresh_process(tmp_path: Path) -> None:
    session = await scripted("good").open(SessionSpec(cwd=str(tmp_path)))
    for task in ("one", "two"):
        events = [event async for event in run_turn(session, task)]
        assert events[-1].outcome == "completed"  # type: ignore[union-attr]
        assert (tmp_path / "made.txt").read_text() == f"{task}\n"
    await session.close()


@pytest.mark.parametrize(
    ("act", "code"),
    [
        ("not_json", "invalid_json"),
        ("wrong_ref_on_event", "protocol_violation"),
        ("fatal", "peer_fatal"),
        ("exit_without_final", "peer_exited"),
        ("killed", "peer_exited"),
        ("answers_pings_and_then_stops", "peer_stalled"),
        ("says_it_failed", "peer_fatal"),
    ],
)
async def test_what_goes_wrong_ends_the_turn_with_its_code(tmp_path: Path, act: str, code: str) -> None:
    events = await turn(scripted(act, PINGING if "pings" in act else QUICK), tmp_path)
    ended = events[-1]
    assert isinstance(ended, TurnEnded) and ended.outcome == "failed" and ended.error and ended.error.code == code
    assert of(Failed, events)


@pytest.mark.parametrize(
    ("act", "error"), [("exit_before_hello", PeerExited), ("log_before_hello", InvalidJson), ("no_hello", PeerStalled)]
)
async def test_a_failed_handshake_is_an_error_of_opening(tmp_path: Path, act: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await scripted(act, Timing(handshake=1.0 if error is PeerStalled else 60)).open(SessionSpec(cwd=str(tmp_path)))


async def test_strange_things_are_warnings(tmp_path: Path) -> None:
    events = await turn(scripted("unknown_fields"), tmp_path)
    assert events[-1].outcome == "completed"  # type: ignore[union-attr]
    assert any("colour" in event.message for event in of(Warned, events))
    events = await turn(scripted("unknown_event"), tmp_path)
    assert of(Usage, events)[0].input_tokens == 3


async def test_an_interrupt_cancels_and_the_turn_ends_once(tmp_path: Path) -> None:
    agent = scripted("stops_when_cancelled", Timing(handshake=60, cancel_grace=60))
    session = await agent.open(SessionSpec(cwd=str(tmp_path)))
    reader = session.events()
    number = await session.prompt(Prompt(text="go"))
    async for event in reader:
        if isinstance(event, Message):
            break
    await session.interrupt(number, "enough")
    await session.close()
    ends = [event async for event in session.events() if isinstance(event, TurnEnded)]
    assert [(event.outcome, event.turn) for event in ends] == [("interrupted", number)]


async def test_one_that_ignores_the_interrupt_is_ended(tmp_path: Path) -> None:
    session = await scripted("hang_and_deaf").open(SessionSpec(cwd=str(tmp_path)))
    reader = session.events()
    number = await session.prompt(Prompt(text="go"))
    async for event in reader:
        if isinstance(event, Message):
            break
    [tree] = keeper_trees()
    assert tree.running
    await session.interrupt(number, "enough")
    assert keeper_trees() == [] and table.look(tree.pid) is None
    await session.close()
    [ended] = [event async for event in session.events() if isinstance(event, TurnEnded)]
    assert (ended.turn, ended.outcome) == (number, "interrupted")


async def test_a_time_limit_ends_the_turn(tmp_path: Path) -> None:
    events = await turn(scripted("hang"), tmp_path, limits=Limits(max_seconds=0.5))
    ended = events[-1]
    assert isinstance(ended, TurnEnded) and ended.outcome == "limited" and ended.error and ended.error.code == "timeout"


@pytest.mark.parametrize(("allowed", "outcome"), [(6, "limited"), (7, "completed")])
async def test_tokens_that_only_the_receipt_reports_count_against_the_limit(
    tmp_path: Path, allowed: int, outcome: str
) -> None:
    events = await turn(scripted("good"), tmp_path, limits=Limits(max_tokens=allowed))
    assert events[-1].outcome == outcome  # type: ignore[union-attr]
    assert not [each for each in of(Warned, events) if each.code == "not_enforced"]


async def test_a_limit_on_what_a_sidecar_does_not_report_is_warned_of(tmp_path: Path) -> None:
    events = await turn(scripted("reports_no_usage"), tmp_path, limits=Limits(max_tokens=6, max_cost_usd=1.0))
    assert events[-1].outcome == "completed"  # type: ignore[union-attr]
    [warned] = [each for each in of(Warned, events) if each.code == "not_enforced"]
    assert "reported no tokens and no costs in this turn, so that limit was not enforced" in warned.message


@pytest.mark.parametrize("act", ["calls_a_denied_tool", "calls_a_denied_tool_and_goes_on"])
async def test_a_tool_that_the_rules_forbid_cancels_the_run(tmp_path: Path, act: str) -> None:
    events = await turn(scripted(act), tmp_path, rules=Rules(deny=("Bash",)))
    ended = events[-1]
    assert isinstance(ended, TurnEnded) and ended.error and ended.error.code == "permission_denied"


async def test_a_probe_says_what_the_sidecar_says_of_itself() -> None:
    info = await scripted("good").probe()
    assert info.capabilities["streaming"] == "native" and info.version == "1"


async def test_it_is_found_by_its_prefix() -> None:
    agent = find_agent(f"sidecar:{OURS} --agent native")
    assert (await agent.probe()).tools


def test_a_command_that_cannot_be_read_is_said_at_once() -> None:
    with pytest.raises(ConfigError, match="check its quotes"):
        find_agent('sidecar:node "host.js')


async def test_who_we_were_told_to_be_is_not_told_to_the_sidecar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_AGENT", "sidecar:this")
    monkeypatch.setenv("TREADLE_MODEL", "m")
    said = "import os; print([os.environ.get(name) for name in ('TREADLE_AGENT', 'TREADLE_MODEL')])"
    with pytest.raises(InvalidJson) as caught:
        await SidecarAgent([sys.executable, "-c", said]).open(SessionSpec(cwd=str(tmp_path)))
    assert caught.value.details == {"line": "[None, 'm']"}
