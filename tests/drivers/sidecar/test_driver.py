"""Any sidecar as a session: our own, and the scripted one that misbehaves."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need
from tests.scripts import calls, says
from tests.stand_ins import bad_sidecar
from treadle.agents import find_agent
from treadle.drivers.card import Launch, cards
from treadle.drivers.sidecar.driver import SidecarAgent, launched, policy_of
from treadle.drivers.sidecar.peer import Timing
from treadle.errors import ConfigError, InvalidJson, PeerExited
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
from treadle.session import Confinement, Limits, Prompt, Rules, SessionSpec
from treadle.sessions.totals import run_turn

QUICK = Timing(handshake=60, cancel_grace=0.5)
OURS = str(Path(sys.executable).parent / "treadle-sidecar")


def scripted(act: str, timing: Timing = QUICK) -> SidecarAgent:
    return SidecarAgent([sys.executable, "-I", "-S", str(bad_sidecar.__file__), act], timing=timing)


async def turn(agent: SidecarAgent, cwd: Path, text: str = "do it", **spec: Any) -> list[AnyEvent]:
    asked = SessionSpec.of(**{"cwd": str(cwd), "mode": None, **spec})
    session = await agent.open(asked)
    session.limits = asked.limits
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
        ("says_it_failed", "peer_fatal"),
    ],
)
async def test_what_goes_wrong_ends_the_turn_with_its_code(tmp_path: Path, act: str, code: str) -> None:
    events = await turn(scripted(act), tmp_path)
    ended = events[-1]
    assert isinstance(ended, TurnEnded) and ended.outcome == "failed" and ended.error and ended.error.code == code
    assert of(Failed, events)


async def test_a_failed_handshake_is_an_error_of_opening(tmp_path: Path) -> None:
    with pytest.raises(PeerExited):
        await scripted("exit_before_hello").open(SessionSpec(cwd=str(tmp_path)))
    assert keeper_trees() == []


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
    events = await turn(scripted("hang", Timing(cancel_grace=0.1)), tmp_path, limits=Limits(max_seconds=0.1))
    ended = events[-1]
    assert why(events) == "the turn took more than 0.1 s"
    assert isinstance(ended, TurnEnded) and ended.outcome == "limited" and ended.error and ended.error.code == "timeout"


@pytest.mark.parametrize(("allowed", "outcome"), [(6, "limited"), (7, "completed")])
async def test_tokens_that_only_the_receipt_reports_count_against_the_limit(
    tmp_path: Path, allowed: int, outcome: str
) -> None:
    events = await turn(scripted("good"), tmp_path, limits=Limits(max_tokens=allowed))
    assert events[-1].outcome == outcome  # type: ignore[union-attr]
    assert not [each for each in of(Warned, events) if each.code == "not_enforced"]


async def test_a_probe_says_what_the_sidecar_says_of_itself() -> None:
    info = await scripted("good").probe()
    assert info.capabilities["streaming"] == "native" and info.version == "1" and keeper_trees() == []


async def test_it_is_found_by_its_prefix() -> None:
    agent = find_agent(f"sidecar:{OURS} --agent native")
    assert (await agent.probe()).tools


def test_a_command_that_cannot_be_read_is_said_at_once() -> None:
    with pytest.raises(ConfigError, match="check its quotes"):
        find_agent('sidecar:node "host.js')


async def test_who_we_were_told_to_be_and_foreign_secrets_are_not_told_to_the_sidecar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TREADLE_AGENT", "sidecar:this"), ("TREADLE_MODEL", "m"), ("OPENAI_API_KEY", "key")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DATABASE_PASSWORD", "secret")
    said = 'echo "<$TREADLE_AGENT|$TREADLE_MODEL|$OPENAI_API_KEY|$DATABASE_PASSWORD|$MINE>"'
    with pytest.raises(InvalidJson) as caught:
        await SidecarAgent(["sh", "-c", said]).open(SessionSpec(cwd=str(tmp_path), env={"MINE": "mine"}))
    assert caught.value.details == {"line": "<|m|key||mine>"}


# What a shell says in its place: no Python has to start for it


def shell(
    *lines: dict[str, Any], before: str = "", between: str = "", after: str = "", timing: Timing = QUICK, **more: Any
) -> SidecarAgent:
    """A sidecar that says hello, hears its order and says these lines; `$RUN` and `$ORDER` stand for their ids."""
    hello = {"contract_version": "abp/v0.1", "backend": {"id": "sh", "backend_version": "2"}, "mode": "mapped"}
    hello |= {"t": "hello", "capabilities": {"streaming": "native"}}
    said = "\n".join(json.dumps(line) for line in lines)
    script = f"""{before}
echo '{json.dumps(hello)}'
{between}
read -r line
RUN=${{line#*'"id":"'}}; RUN=${{RUN%%'"'*}}
ORDER=${{line#*'"work_order":{{"id":"'}}; ORDER=${{ORDER%%'"'*}}
cat <<END
{said}
END
{after}"""
    return SidecarAgent(["sh", "-c", script], timing=timing, **more)


def event(kind: str, **body: Any) -> dict[str, Any]:
    return {"t": "event", "ref_id": "$RUN", "event": {"ts": bad_sidecar.NOW, "type": kind, **body}}


def final(**more: Any) -> dict[str, Any]:
    return {"t": "final", "ref_id": "$RUN", "receipt": bad_sidecar.receipt(**more)}


def end_of(events: list[AnyEvent]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    return events[-1]


def why(events: list[AnyEvent]) -> str:
    error = end_of(events).error
    return error.message if error is not None else ""


async def test_the_answer_is_what_was_said_last_and_every_message_is_an_iteration(tmp_path: Path) -> None:
    pieces = [event("assistant_delta", text=text) for text in ("Hel", "lo")]
    ended = end_of(await turn(shell(*pieces, final()), tmp_path))
    assert (ended.outcome, ended.text, ended.iterations, ended.stop_reason) == ("completed", "Hello", 0, "complete")
    whole = [event("assistant_message", text=text) for text in ("One.", "Two.")]
    ended = end_of(await turn(shell(*pieces, *whole, final()), tmp_path))
    assert (ended.text, ended.iterations) == ("Two.", 2)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"input_tokens": 3}, (3, 0, 0, 0, None)),
        ({"output_tokens": 4, "estimated_cost_usd": 0.5}, (0, 4, 0, 0, 0.5)),
        ({"input_tokens": 1, "cache_read_tokens": 5, "cache_write_tokens": 6}, (1, 0, 5, 6, None)),
        ({"cache_read_tokens": 5}, None),
    ],
)
async def test_what_only_the_receipt_counts_is_counted_once(
    tmp_path: Path, usage: dict[str, Any], counted: tuple[Any, ...] | None
) -> None:
    found = of(Usage, await turn(shell(final(usage=usage)), tmp_path))
    seen = [
        (one.input_tokens, one.output_tokens, one.cache_read_tokens, one.cache_write_tokens, one.cost_usd)
        for one in found
    ]
    assert seen == ([counted] if counted is not None else [])


async def test_usage_during_the_run_counts_in_place_of_the_receipt_and_against_the_limit(tmp_path: Path) -> None:
    lines = [event("usage", input_tokens=3), event("assistant_message", text="on"), final(usage={"input_tokens": 9})]
    events = await turn(shell(*lines), tmp_path, limits=Limits(max_tokens=3))
    assert [one.input_tokens for one in of(Usage, events)] == [3] and end_of(events).outcome == "completed"
    over = [event("usage", input_tokens=2), event("usage", input_tokens=2), event("usage", input_tokens=2)]
    events = await turn(shell(*over, after="read -r cancel"), tmp_path, limits=Limits(max_tokens=3))
    assert end_of(events).outcome == "limited" and why(events) == "4 tokens are used, 3 were allowed"
    both = Limits(max_tokens=10, max_cost_usd=1.0)
    [warned] = [one for one in of(Warned, await turn(shell(final()), tmp_path, limits=both))]
    assert "reported no costs in this turn" in warned.message and warned.code == "not_enforced"


async def test_what_it_says_of_its_outcome_is_the_outcome(tmp_path: Path) -> None:
    events = await turn(shell(final(outcome="failed")), tmp_path)
    assert why(events) == "the sidecar reports that the run failed" and end_of(events).outcome == "failed"
    events = await turn(shell(event("error", message="no"), final(outcome="failed")), tmp_path)
    assert why(events) == "the sidecar reports that the run failed; see its errors above"
    events = await turn(shell(final(outcome="partial")), tmp_path)
    [warned] = of(Warned, events)
    assert warned.code == "partial" and "incomplete" in warned.message
    assert (end_of(events).outcome, end_of(events).stop_reason) == ("completed", "partial")
    events = await turn(shell({**final(), "colour": 1}), tmp_path)
    assert [one.code for one in of(Warned, events)] == ["tolerated"]


async def test_a_call_is_judged_by_where_its_paths_lead_and_the_first_violation_counts(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    rules = Rules(deny=("Write(secret)", "Bash(rm *)"))

    def call(tool: str, **given: Any) -> dict[str, Any]:
        return event("tool_call", tool_name=tool, input=given, tool_use_id="c")

    fine = [call("write_file", path="other", content=""), call("bash", command="ls"), call("write_file", path="a\0b")]
    events = await turn(shell(*fine, final()), tmp_path, rules=rules)
    assert end_of(events).outcome == "completed" and len(of(ToolStarted, events)) == 3
    bad = [call("write_file", path="link", content=""), call("bash", command="rm x")]
    events = await turn(shell(*bad, after='read -r line; echo "$line" > heard'), tmp_path, rules=rules)
    assert end_of(events).error is not None and end_of(events).error.code == "permission_denied"  # type: ignore[union-attr]
    assert "secret" in why(events) and "rm" not in why(events)
    heard = json.loads((tmp_path / "heard").read_text())
    assert (heard["t"], heard["reason"]) == ("cancel", why(events))


async def test_an_interrupt_tells_its_reason(tmp_path: Path) -> None:
    end = json.dumps(final()).replace('"', '\\"')
    heard = f'read -r line; echo "$line" > heard; echo "{end}"'
    agent = shell(event("assistant_message", text="begun"), after=heard, timing=Timing(cancel_grace=60))
    session = await agent.open(SessionSpec.of(cwd=str(tmp_path), session_id="mine"))
    reader = session.events()
    number = await session.prompt(Prompt(text="go"))
    async for one in reader:
        if isinstance(one, Message):
            break
    await session.interrupt(number, "enough")
    assert session.id == "mine" and json.loads((tmp_path / "heard").read_text())["reason"] == "enough"
    await session.close()
    session = await shell().open(SessionSpec(cwd=str(tmp_path)))
    assert session.id.startswith("session_") and len(keeper_trees()) == 1
    await session.close()
    assert keeper_trees() == []


async def test_one_that_has_exited_before_its_turn_is_started_again(tmp_path: Path) -> None:
    once = shell(final(), between="[ -e used ] || { touch used; exit 0; }")
    session = await once.open(SessionSpec(cwd=str(tmp_path)))
    assert session._peer is not None
    async with asyncio.timeout(60):
        await session._peer.child.wait()
        events = [one async for one in run_turn(session, "go")]
        assert end_of(events).outcome == "completed" and keeper_trees() == []
        once._argv = ["false"]
        events = [one async for one in run_turn(session, "go")]
        error = end_of(events).error
        assert error is not None and error.code == "peer_exited" and keeper_trees() == []
    await session.close()


@pytest.mark.parametrize(
    ("allow", "held", "named"), [("Bash", False, 0), ("Bash(touch x)", True, 1), ("Read(a)", True, 0)]
)
async def test_a_tool_that_is_allowed_is_not_held_back_and_a_rule_that_it_cannot_be_told_is_named(
    tmp_path: Path, allow: str, held: bool, named: int
) -> None:
    spec = SessionSpec(cwd=str(tmp_path), mode="suggest", rules=Rules(allow=(allow,)))
    session = await shell(final()).open(spec)
    warned = [one.message for one in session.events().ready() if isinstance(one, Warned) and allow in one.message]
    await session.close()
    assert ("Bash" in policy_of(spec).require_approval_for) is held and len(warned) == named


async def test_what_it_says_of_itself_is_what_it_can(tmp_path: Path) -> None:
    capabilities: dict[str, Any] = {"streaming": "native", "tool_use": {"restricted": {"reason": "r"}}}
    capabilities |= {"tool_read": "native", "mcp_client": "unsupported", "telepathy": "native"}
    greeting = {"contract_version": "abp/v0.1", "backend": {"id": "x"}, "capabilities": capabilities}
    agent = SidecarAgent(f"echo '{json.dumps({'t': 'hello', **greeting})}'")
    info = await agent.probe()
    assert (info.version, info.name) == ("", agent.name) and agent.name.startswith('sidecar:echo \'{"t"')
    assert {"read", "use"} == {*info.tools}
    levels = {"interrupt": "native", "streaming": "native", "tools": "emulated", "mcp": "unsupported"}
    assert info.capabilities == levels


async def test_it_is_confined_where_that_is_asked_for_with_what_its_settings_add(tmp_path: Path) -> None:
    need("bwrap")
    (work := tmp_path / "w").mkdir()
    own, out = tmp_path / "own", tmp_path / "out"
    out.mkdir()
    argv = ("sh", "-c", f"touch {own}/x here; touch {out}/x; exit 3")
    launch = Launch(argv=argv, writes=(str(own),), hosts=("h.example",))
    agent = launched(cards()["sidecar"], launch)
    confinement = Confinement(use="on", network="off")
    with pytest.raises(PeerExited, match="code 3") as caught:
        await agent.open(SessionSpec(cwd=str(work), confinement=confinement))
    assert (own / "x").exists() and (work / "here").exists() and not (out / "x").exists()
    assert "It reaches only h.example;" in (caught.value.hint or "")
    session = await shell().open(SessionSpec(cwd=str(work), confinement=confinement))
    assert session.info.sealed is True
    await session.close()
