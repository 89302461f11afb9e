"""One contract over every driver, from recordings: a real process plays the agent. A new driver is found by its folder
of recordings, which `make record-agents` makes with the real program."""

import asyncio
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.agent.pixels import png
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
from tests.drivers.told import CARD, END, Told, told, turn
from tests.stand_ins import RECORD, REPLAY
from treadle.agents import AgentWrapper, _load, wrapped
from treadle.drivers import session as session_module
from treadle.drivers.agent import PATIENCE as USUAL
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Card, Launch, cards
from treadle.drivers.confined import Withheld
from treadle.drivers.session import DrivenSession
from treadle.errors import AuthFailed, RemoteError, ToolError, Unsupported
from treadle.events import (
    AnyEvent,
    Asked,
    CommandRun,
    Failed,
    FileChanged,
    Message,
    TaskChanged,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Usage,
    Warned,
)
from treadle.io.peer import Patience
from treadle.io.process import table
from treadle.session import Access, Answer, Limits, OwnProgram, Prompt, Rules, SessionSpec
from treadle.sessions.abilities import can
from treadle.sessions.totals import Totals

HERE = Path(__file__).parent
RECORDED = {name: card for name, card in cards().items() if (HERE / name / "recordings").is_dir()}
CASES = [(card, scenario) for card in RECORDED.values() for scenario in SCENARIOS if fits(card, scenario)]
FIRST = {card.driver: card.name for card in reversed(RECORDED.values())}.values()
EACH_DRIVER = [pytest.param(card, id=card.name) for card in RECORDED.values() if card.name in FIRST]
"""One agent of each driver, where the driver alone decides."""
SEEN: dict[str, tuple[str, Callable[[Played], Any]]] = {
    "streaming": ("text", lambda played: len(played.of(TextDelta)) > 1),
    "usage": ("text", lambda played: played.of(Usage)),
    "cost": ("text", lambda played: any(usage.cost_usd is not None for usage in played.of(Usage))),
    "iterations": ("text", lambda played: played.ends[0].iterations == 1),
    "tools": ("tool", lambda played: played.of(ToolStarted) and played.of(ToolEnded)),
    "results": ("tool", lambda played: "tool-output" in played.of(ToolEnded)[0].result or played.of(CommandRun)),
    "file_changes": ("file", lambda played: "+hello" in played.of(FileChanged)[0].diff),
    "permissions": ("allowed", lambda played: played.of(Asked) and list(played.tools().values()) == ["ok"]),
    "rules": ("ruled", lambda played: played.of(ToolDenied)[0].by == "rule"),
    "interrupt": ("interrupted", lambda played: played.ends[0].outcome == "interrupted"),
    "changed_input": ("another_input", lambda played: "touch other.txt" in str(played.of(ToolStarted)[0].command)),
    "steer": ("told_more", lambda played: not played.refused),
}
"""The scenario in which an ability can be seen, and what is seen of it."""
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
) -> AgentWrapper:
    """The agent, played from a recording: its name, or the path of one. What it hears is written to `noted`."""
    place = Path(recording) if recording.endswith(".jsonl") else HERE / card.name / "recordings" / f"{recording}.jsonl"
    recorder = (sys.executable, "-S", RECORD, str(noted)) if noted else ()
    argv = (*recorder, sys.executable, "-S", REPLAY, str(place), *more)
    source = str(Path(sys.modules["treadle"].__file__ or "").parents[1])
    sets = {"PYTHONPATH": source}
    launch = Launch(argv=argv, environment=card.environment, sets=sets)
    around = {"PATH": os.environ["PATH"], **(environ or {})}
    made = _load(card.driver)(card, launch, environ=around, patience=patience)
    assert isinstance(made, DrivenAgent)
    return wrapped(made, card, launch, environ=around)


def gone(played: Played) -> bool:
    tree = played.session.peer.child.tree  # type: ignore[attr-defined]
    return tree.processes() == []


@pytest.mark.parametrize(("card", "scenario"), CASES, ids=lambda case: case.name)
async def test_a_recorded_agent_keeps_the_contract(card: Card, scenario: Any, tmp_path: Path) -> None:
    async with play(replayed(card, scenario.name, patience=UNHURRIED), scenario, tmp_path) as played:
        check_always(played)
        scenario.check(played)
        for ability, (shown, seen) in SEEN.items():
            if shown == scenario.name and can(card.capabilities, ability):
                assert seen(played), f"{card.name} declares {ability}"
        if not can(card.capabilities, "tasks"):
            assert not played.of(TaskChanged)
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
@pytest.mark.parametrize("card", EACH_DRIVER)
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
@pytest.mark.parametrize("card", EACH_DRIVER)
@pytest.mark.slow
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


@pytest.mark.parametrize("card", EACH_DRIVER)
@pytest.mark.slow
async def test_an_agent_that_hangs_is_ended_by_the_time_limit(card: Card, tmp_path: Path) -> None:
    agent = replayed(card, "text", "--fault", "hang", "--after", "3")
    async with play(agent, NAMED["text"], tmp_path, limits=Limits(max_seconds=0.5)) as played:
        check_always(played)
        assert played.ends[0].outcome == "limited" and played.ends[0].stop_reason == "timeout"


@pytest.mark.parametrize("how", ["close", "crash"])
@pytest.mark.parametrize("card", EACH_DRIVER)
async def test_what_an_agent_started_is_gone_after_it(card: Card, how: str, tmp_path: Path) -> None:
    faults = ["--fault", "crash", "--after", "2"] if how == "crash" else []
    async with play(replayed(card, "text", "--child", "sleep 1000", *faults), NAMED["text"], tmp_path) as played:
        assert len(played.ends) == 1
    assert gone(played)


@pytest.mark.parametrize("card", EACH_DRIVER)
async def test_no_prompt_and_no_key_is_on_a_command_line(card: Card, tmp_path: Path) -> None:
    agent = replayed(card, "text", environ={"ANTHROPIC_API_KEY": "s3cret", "OPENAI_API_KEY": "s3cret"})
    spec = SessionSpec.of(cwd=str(tmp_path), system_prompt="a secret persona", append_system_prompt="a secret addition")
    async with asyncio.timeout(PATIENCE):
        session = await agent.open(spec)
        words = table.command_line(session.peer.child.pid)
        await go_through(session, NAMED["text"])
        await session.close()
    assert not [word for word in words if "secret" in word or "s3cret" in word or "[[hello]]" in word]


def test_what_an_outer_agent_has_set_is_not_passed_on() -> None:
    outer = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CODEX_SANDBOX", "CODEX_THREAD_ID")
    foreign = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DATABASE_PASSWORD")
    environ = {**dict.fromkeys((*outer, *foreign), "x"), "PATH": "/bin", "LANG": "C"}
    for card in RECORDED.values():
        launch = Launch(argv=("x",), environment=card.environment, sets=card.sets)
        agent = _load(card.driver)(card, launch, environ=environ)
        seen = agent.env({})
        allowed = {name for name in foreign if name in card.environment}
        assert not seen.keys() & {*outer, *foreign} - allowed, card.name
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


async def test_nothing_is_left_when_we_are_killed(tmp_path: Path) -> None:
    code = KILLED.format(root=str(HERE.parents[1]), name="claude", cwd=str(tmp_path))
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


# What all of them share, with an agent that says what a test wants it to


def of(kind: type, events: Iterable[AnyEvent]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def warnings(session: Told) -> list[tuple[str, str]]:
    return [(event.code, event.message) for event in of(Warned, session.events().ready())]


async def test_a_session_says_what_it_was_opened_with(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"model": "m", "tools": ("a", "b"), "mode": "plan", "answer_seconds": math.inf}
    async with told(tmp_path, version="1.3", **asked) as session:
        info = session.info
        assert (info.name, info.version, info.models, info.tools) == ("told", "1.3", ("m",), ("a", "b"))
        assert (info.mode, info.sealed, info.reaches, info.capabilities) == ("plan", False, None, CARD.capabilities)
        assert session.deadline() is None and warnings(session) == [] and await session.account() is None
    async with told(tmp_path) as session:
        assert (session.info.models, session.info.tools) == ((), ()) and session.deadline() is not None
        session._info = replace(session.info, key_source="a key")
        assert await session.account() == "a key"


async def test_what_it_says_of_itself_is_held_against_what_the_session_asks_for(tmp_path: Path) -> None:
    async with told(tmp_path, model="m", add_dirs=("/x",), routine=("add_dirs",)) as session:
        session.narrow({**CARD.capabilities, "add_dirs": "unsupported", "steer": "unsupported"})
        assert session.info.capabilities["steer"] == "unsupported"
        assert warnings(session) == [("not_enforced", "told works in no directory but its own")]
        with pytest.raises(Unsupported, match="told cannot be told which model to use"):
            session.narrow({**CARD.capabilities, "model": "unsupported"})


class Obeying(Told):
    OBEYS = True


async def test_a_prompt_with_a_slash_is_refused_only_where_it_would_be_a_command(tmp_path: Path) -> None:
    async with told(tmp_path, kind=Obeying) as session:
        with pytest.raises(Unsupported, match="told would treat this prompt as one of its commands"):
            await session.prompt(Prompt(text=" /x", verbatim=True))
        with pytest.raises(ToolError, match="image 2 "):
            await session.prompt(Prompt(text="x", images=(png(), b"none")))
        assert (await turn(session, END))[-1].outcome == "completed"  # type: ignore[union-attr]
        await session.prompt(Prompt(text=" /x\n"))
        await session.prompt(Prompt(text="x /\n", verbatim=True))
    async with told(tmp_path) as session:
        await session.prompt(Prompt(text="/x\n", verbatim=True))


async def test_lines_that_cannot_be_read_are_warned_of_once_and_end_the_session_when_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "BAD_LINES", 3)
    async with told(tmp_path) as session:
        events = await turn(session, "junk\n" * 3, '{"odd": "unheard of"}\n', END)
        first, second = of(Warned, events)
        assert first.code == "tolerated" and first.message.startswith("told sent an invalid message: a line is not")
        form = "told said something in a form that is not known: ValueError: unheard of"
        assert (second.code, second.message) == ("tolerated", form)
        assert events[-1].outcome == "completed"  # type: ignore[union-attr]
        failed = (await turn(session, "junk\n"))[-1]
        assert isinstance(failed, TurnEnded) and failed.error is not None and failed.error.code == "protocol_error"
        assert failed.error.message.startswith("it sent 3 lines that cannot be read")
        again = (await turn(session, END))[-1]
        assert isinstance(again, TurnEnded) and again.error is not None
        ended = "told has ended (open a new session, or resume this one by its id)"
        assert (again.error.code, again.error.message) == ("remote_error", ended)
    assert session.left == 0


async def test_a_line_that_is_too_long_ends_the_turn(tmp_path: Path) -> None:
    async with told(tmp_path, cap=100) as session:
        failed = (await turn(session, "x" * 200, "\n"))[-1]
        assert isinstance(failed, TurnEnded) and failed.error is not None and failed.error.code == "line_too_long"
        assert "it sent what cannot be followed: " in failed.error.message


async def test_what_comes_after_the_end_of_a_turn_is_not_of_that_turn(tmp_path: Path) -> None:
    async with told(tmp_path) as session:
        reader = session.events(after=-1)
        events = await turn(session, '{"run": "c1"}\n{"run": "c1"}\n', END, '{"say": "late"}\n')
        [ended] = of(ToolEnded, events)
        assert (ended.result, ended.ok, ended.parent) == ("the turn ended before it did", False, None)
        assert [event.parent for event in of(ToolStarted, events)] == ["p"] and of(Message, events) == []
        async with asyncio.timeout(60):
            async for event in reader:
                if isinstance(event, Message):
                    break
        assert event.turn == "" and session.left == 0
    assert session.left == 1 and session.peer.gone


@pytest.mark.parametrize(
    ("limits", "line", "problem"),
    [
        ({"max_tokens": 5}, '{"use": 3}\n', "6 tokens are used, 5 were allowed"),
        ({"max_iterations": 1}, '{"step": 0}\n', "told continued after 1 iterations"),
    ],
)
async def test_one_that_exceeds_a_limit_is_stopped_and_can_go_on(
    tmp_path: Path, limits: dict[str, Any], line: str, problem: str
) -> None:
    async with told(tmp_path, limits=Limits(**limits)) as session:
        first = await turn(session, line, END)
        assert (first[-1].outcome, session.stopped) == ("completed", 0) and not of(Warned, first)  # type: ignore[union-attr]
        events = await turn(session, line * 2)
        ended = events[-1]
        assert isinstance(ended, TurnEnded) and (ended.outcome, session.stopped) == ("limited", 1)
        assert ended.error is not None and ended.error.message == problem and not of(Warned, events)
        assert not session.peer.gone
        ended = (await turn(session, line * 2, END))[-1]
        assert isinstance(ended, TurnEnded) and (ended.outcome, session.stopped) == ("limited", 1), "it had stopped"
        session.spent = Totals()
        assert (await turn(session, line, END))[-1].outcome == "completed"  # type: ignore[union-attr]


async def test_a_limit_of_what_is_not_reported_is_warned_of_when_a_turn_completes(tmp_path: Path) -> None:
    ends: list[tuple[str, str]] = []

    async def stop(outcome: str, text: str) -> None:
        ends.append((outcome, text))

    own = OwnProgram(stop=stop)
    async with told(tmp_path, limits=Limits(max_tokens=5), program=own) as session:
        failed = await turn(session, '{"fail": "x", "words": "broken"}\n')
        assert of(Warned, failed) == [] and [event.error.message for event in of(Failed, failed)] == ["broken"]
        [warned] = of(Warned, await turn(session, END))
        assert warned.message == "told reported no tokens in this turn, so that limit was not enforced"
        assert warned.code == "not_enforced" and ends == [("failed", ""), ("completed", "done")]


async def test_an_error_is_reported_once_and_says_which_variable_it_did_not_get(tmp_path: Path) -> None:
    async with told(tmp_path) as session:
        session.lacks(Withheld(CARD, ["x"], {"ODD_KEY": "v"}, {}))
        assert warnings(session) == []
        events = await turn(session, '{"error": "no ODD_KEY"}\n{"fail": "x", "words": "no ODD_KEY"}\n')
        [failed] = of(Failed, events)
        assert failed.error.message.startswith("no ODD_KEY (ODD_KEY: set here but not passed to it")
        assert events[-1].error.message == failed.error.message  # type: ignore[union-attr]
        [failed] = of(Failed, await turn(session, '{"fail": "x", "words": "other"}\n'))
        assert failed.error.message == "other"
        session._withheld._settings = ["ODD_KEY"]  # type: ignore[union-attr]
        session.lacks(session._withheld)  # type: ignore[arg-type]
        assert warnings(session)[-1][0] == "withheld" and "name ODD_KEY" in warnings(session)[-1][1]
        for code, advised in (("auth_failed", True), ("provider_error", False)):
            [failed] = of(Failed, await turn(session, f'{{"fail": "{code}", "words": "other"}}\n'))
            assert ("ODD_KEY" in failed.error.message) is advised
        for error, advised in ((AuthFailed("no"), True), (RemoteError("no"), False)):
            session.fail(error)
            assert ("ODD_KEY" in (error.hint or "")) is advised


async def test_one_that_does_not_stop_is_ended_and_one_that_cannot_be_told_is_not_warned_of(tmp_path: Path) -> None:
    patience = Patience(cancel=0.05, grace=1.0)
    async with told(tmp_path, patience=patience, limits=Limits(max_seconds=0.05)) as session:
        session.stops = RemoteError("it is deaf")
        events = await turn(session, '{"run": "c1"}\n')
        assert of(Warned, events) == [] and not session.peer.gone
        ended = events[-1]
        assert isinstance(ended, TurnEnded) and (ended.outcome, ended.stop_reason) == ("limited", "timeout")
        assert ended.error is not None and ended.error.message == "the turn took more than 0.05 s"
        session.stops = ""
        [warned] = of(Warned, await turn(session, "\n"))
        assert warned.message == "told did not stop within 0.05 s and was ended"
        assert warned.code == "cancel_not_heeded" and session.peer.gone


async def test_silence_is_borne_while_a_person_is_asked(tmp_path: Path) -> None:
    async with told(tmp_path, answers=True) as session:
        session.silence = 0.0
        session._questions["q"] = cast(Any, None)
        assert (await turn(session, END))[-1].outcome == "completed"  # type: ignore[union-attr]
        session._questions.clear()
        stalled = (await turn(session, "\n"))[-1]
        assert isinstance(stalled, TurnEnded) and stalled.error is not None and stalled.error.code == "peer_stalled"
        assert stalled.error.message.startswith("it sent nothing for 0 s")


async def test_what_an_interrupted_turn_started_is_ended_and_what_was_there_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "LEFTOVER_GRACE", 0.0)
    script = """sleep 1001 & echo '{"say": "ready"}'; read x; sleep 1002 & echo '{"say": "more"}'; exec cat"""
    async with told(tmp_path, "bash", "-c", script) as session, asyncio.timeout(60):
        reader = session.events()
        assert isinstance(await anext(reader), Message)
        prompted = await session.prompt(Prompt(text=""))
        while session._before == set():
            await asyncio.sleep(0)
        await session.peer.say("go\n")
        while not isinstance(await anext(reader), Message):
            pass
        await session.interrupt(prompted, "enough")
        running = [table.command_line(each.pid) for each in session.peer.child.tree.processes()]
        assert ["sleep", "1001"] in running and ["sleep", "1002"] not in running and not session.peer.gone


async def test_a_job_ends_with_its_turn_and_its_error_is_no_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def failing() -> None:
        raise RemoteError("not now")

    async with told(tmp_path) as session:
        begun = asyncio.Event()

        async def waiting() -> None:
            begun.set()
            await asyncio.Event().wait()

        session.job(failing())
        session.job(waiting())
        await begun.wait()
        [job] = session._jobs
        assert "told could not be answered: not now" in caplog.text
        assert (await turn(session, END))[-1].outcome == "completed"  # type: ignore[union-attr]
        async with asyncio.timeout(60):
            await asyncio.wait([job])
        assert job.cancelled() and not session._jobs
        session.job(asyncio.Event().wait())  # type: ignore[arg-type]
        [job] = session._jobs
    assert job.cancelled() or job.cancelling()


async def test_a_call_is_reported_once_and_a_denied_one_as_denied(tmp_path: Path) -> None:
    async with told(tmp_path) as session:
        reader = session.events(after=-1)
        access = Access(tool="bash", kind="execute", command="x", args={"a": 1}, paths=("/p",))
        session.tool_started("c1", "bash", access)
        session._tools["c1"] = ("bash", time.monotonic() - 2)
        session.tool_ended("c1", "out", True, "parent")
        session.tool_ended("c1", "again", True)
        for by, shown in (("hook", "hook"), ("a friend", "person")):
            session.tool_denied(by, "bash", "because", by, {"b": 2}, "parent")
            session.tool_denied(by, "bash", "again", by, None)
            session.tool_started(by, "bash", access)
            [*_, denied] = of(ToolDenied, session.events().ready())
            assert (denied.call, denied.by, denied.reason, denied.args) == (by, shown, "because", {"b": 2})
        started, ended, *rest = reader.ready()
        assert isinstance(started, ToolStarted) and isinstance(ended, ToolEnded) and len(rest) == 2
        assert (started.args, started.kind, started.paths) == ({"a": 1}, "execute", ("/p",))
        assert (started.command, started.name, started.parent) == ("x", "bash", None)
        assert (ended.result, ended.ok, ended.name, ended.parent) == ("out", True, "bash", "parent")
        assert 2000 <= ended.duration_ms < 60_000
        (tmp_path / "link").symlink_to(tmp_path / "real")
        found = session.access("read", {"c": 3}, "read", ("link", "a\0b", "/etc"), url="u")
        assert (found.paths, found.args, found.url) == ((str(tmp_path / "real"), "/etc"), {"c": 3}, "u")
        session.step()  # between turns nothing is counted


async def answered(session: Told, answer: Answer, access: Access, **more: Any) -> tuple[list[Any], Answer]:
    """What was asked, and what came of it."""
    reader = session.events(after=-1)
    asking = asyncio.create_task(session.permit(access, **{"call": "c", **more}))
    async with asyncio.timeout(60):
        while not asking.done():
            for asked in of(Asked, reader.ready()):
                await session.answer(asked.request, answer)
            await asyncio.sleep(0)
    session._denied.clear()
    return of(Asked, session.events().ready()), asking.result()


YES, NO = Answer(decision="allow"), Answer(decision="deny")
RUN = Access(tool="bash", kind="execute", command="make", args={"command": "make"})


async def test_our_rules_decide_first_and_then_a_person(tmp_path: Path) -> None:
    async with told(tmp_path, answers=True, mode="suggest", rules=Rules(deny=("Bash(rm*)",))) as session:
        asked, answer = await answered(session, YES, RUN, options=("y", "n"), parent="p", text="")
        assert answer.decision == "allow" and len(asked) == 1
        assert (asked[0].kind, asked[0].call, asked[0].name, asked[0].parent) == ("permission", "c", "bash", "p")
        assert (asked[0].args, asked[0].command, asked[0].options) == (RUN.args, "make", ("y", "n"))
        assert asked[0].text == "bash (execute) requires approval in suggest mode"
        assert asked[0].tool_kind == "execute" and asked[0].deadline is not None
        asked, answer = await answered(session, replace(YES, scope="session"), RUN, text="May I?")
        assert (len(asked), asked[1].text) == (2, "May I?"), "allowed once before"
        asked, answer = await answered(session, NO, RUN)
        assert (len(asked), answer.decision, answer.by) == (2, "allow", "person"), "allowed for the session"
        asked, answer = await answered(session, NO, RUN, judged=True)
        assert (len(asked), answer.decision, asked[2].text) == (3, "deny", "told asks to use bash")
        denied = of(ToolDenied, session.events().ready())[-1]
        assert (denied.reason, denied.by, denied.args) == ("a person said no", "person", RUN.args)
        asked, answer = await answered(session, YES, replace(RUN, command="rm x"), kind="question", parent="p")
        assert (len(asked), answer.decision, answer.by) == (3, "deny", "rule")
        denied = of(ToolDenied, session.events().ready())[-1]
        assert (denied.by, denied.reason, denied.parent) == ("rule", answer.text, "p")
        session.rebind("full-auto")
        assert (session.info.mode, session.spec.mode) == ("full-auto", "full-auto")
        asked, answer = await answered(session, NO, replace(RUN, command="other"))
        assert (len(asked), answer.decision, answer.by) == (3, "allow", "mode")
        asked, _ = await answered(session, replace(YES, scope="session"), RUN, kind="plan")
        assert len(asked) == 4, "a plan is asked about in any mode"
        session.rebind("suggest")
        assert len((await answered(session, YES, RUN))[0]) == 4, "what was allowed stays allowed"


async def test_an_answer_that_changes_the_call_is_judged_anew_and_not_remembered(tmp_path: Path) -> None:
    def about(args: Any) -> Access:
        return replace(RUN, command=args)

    always = Answer(decision="allow", scope="session")
    async with told(tmp_path, answers=True, mode="suggest", rules=Rules(deny=("Bash(rm*)",))) as session:
        _, answer = await answered(session, replace(always, changed_args="rm x"), RUN, about=about)
        assert (answer.decision, answer.by, bool(answer.text)) == ("deny", "rule", True)
        _, answer = await answered(session, replace(always, changed_args="make all"), RUN, about=about)
        assert (answer.decision, answer.changed_args) == ("allow", "make all")
        asked, answer = await answered(session, replace(always, changed_args="rm x"), RUN)
        assert (len(asked), answer.decision) == (3, "allow"), "without `about` nobody knows what it touches"
        assert len((await answered(session, YES, RUN, kind="plan"))[0]) == 4
        await answered(session, replace(always), RUN, kind="plan")
        assert len((await answered(session, NO, RUN))[0]) == 6, "approving a plan allows no call"


async def test_where_no_one_can_be_asked_the_reason_is_with_the_denial(tmp_path: Path) -> None:
    async with told(tmp_path, mode="suggest") as session:
        await session.permit(RUN, call="c")
        [denied] = of(ToolDenied, session.events().ready())
        reason = "bash (execute) requires approval in suggest mode: no one can be asked in this session"
        assert (denied.reason, denied.by) == (reason, "nobody")


@pytest.mark.parametrize(
    ("version", "told_of"),
    [
        ("1.5", "told 1.5 is newer than any recording (1.4); new messages are ignored"),
        ("1.1", "told 1.1 is older than any recording (1.2); it may lack abilities that its card declares"),
        ("1.3", ""),
    ],
)
async def test_a_version_that_was_never_recorded_is_said(tmp_path: Path, version: str, told_of: str) -> None:
    async with told(tmp_path, version=version) as session:
        session.warn_of_drift()
        assert warnings(session) == ([("version_drift", told_of)] if told_of else [])
