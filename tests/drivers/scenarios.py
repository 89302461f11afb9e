"""What every driven agent is put through, and what must hold. From recordings in `make test`, with the real programs in
`make test-agents`, and again by `make record-agents`, which makes the recordings."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from treadle.agent.providers.script import CallLine, ErrorLine, Script, ScriptedReply, UsageLine
from treadle.errors import Unsupported
from treadle.events import (
    AnyEvent,
    Asked,
    Failed,
    FileChanged,
    Message,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
)
from treadle.session import Agent, Answer, Mode, Prompt, Rules, Session, SessionSpec
from treadle.sessions.abilities import can

PATIENCE = 60.0
HELLO = "Hello from the model."
DONE = "All is done."
NAP = "time.sleep(300.417)" if os.environ.get("RECORD_AGENTS") else f"time.sleep(300.{os.getpid()})"
"""Of this process alone: beside it, another process may run the same tests."""
SLEEP = f"python3 -c 'import time; {NAP}'"
"""Some agents refuse a plain sleep."""
OTHER = "touch other.txt"
USED = UsageLine(input=100, output=5, cache_read=20)


class Tools(NamedTuple):
    """How the model asks this agent for a command and for a file: name and arguments."""

    shell: Callable[[str], tuple[str, dict[str, Any]]]
    write: Callable[[str, str], tuple[str, dict[str, Any]]]


def script(tools: Tools, folder: str = "") -> Script:
    """The model's side of every scenario, chosen by a word in the prompt; files are named in this folder."""

    def calls(word: str, call: tuple[str, dict[str, Any]]) -> ScriptedReply:
        name, arguments = call
        return ScriptedReply(
            when=rf"\[\[{word}\]\]",
            text="Let me see.",
            call=(CallLine(name=name, arguments=arguments, id=f"call_{word}"),),
            usage=USED,
        )

    failing = ErrorLine(status=401, message="the key is wrong")
    return Script(
        reply=(
            # An agent that asks for a title first must not be given what was meant for the prompt.
            ScriptedReply(system="You are a title generator", text="A title", usage=USED, times="always"),
            calls("tool", tools.shell("echo tool-output")),
            calls("touch", tools.shell("touch marker.txt")),
            calls("sleep", tools.shell(SLEEP)),
            calls("wait", tools.shell("python3 -c 'import time; time.sleep(1.5)'")),
            calls("write", tools.write(os.path.join(folder, "note.txt"), "hello\n")),
            ScriptedReply(when=r"\[\[fail\]\]", error=failing, times="always"),
            ScriptedReply(when=r"\[\[hello\]\]", text=HELLO, usage=USED, times="always"),
            ScriptedReply(text=DONE, usage=USED, times="always"),
        )
    )


class Played(NamedTuple):
    session: Session
    events: list[AnyEvent]
    seconds: float
    """From the interrupt to the end of its turn."""
    refused: str = ""
    """Why it could not be told more."""

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def ends(self) -> list[TurnEnded]:
        return self.of(TurnEnded)

    def tools(self) -> dict[str, str]:
        """What became of each call."""
        became = {event.call: "started" for event in self.of(ToolStarted)}
        became |= {event.call: "ok" if event.ok else "failed" for event in self.of(ToolEnded)}
        return became | {event.call: f"denied by {event.by}" for event in self.of(ToolDenied)}


class Scenario(NamedTuple):
    name: str
    prompts: tuple[str, ...]
    check: Callable[[Played], None]
    mode: Mode | None = "full-auto"
    rules: Rules = Rules()
    answer: Answer | Callable[[Asked], Answer] | None = None
    """What a person says to every question; None: no one can be asked."""
    more: str = ""
    """What it is told while its first tool runs."""
    interrupt: bool = False
    needs: tuple[str, ...] = ()
    """Capabilities without which this cannot be tried."""


@asynccontextmanager
async def play(
    agent: Agent, scenario: Scenario, cwd: Path, *, running: Callable[[], bool] | None = None, **more: Any
) -> AsyncIterator[Played]:
    """Go through it with a fresh session, which is closed afterwards. `running`: whether the command to interrupt has
    begun."""
    spec = SessionSpec.of(
        cwd=str(cwd), mode=scenario.mode, rules=scenario.rules, answers=scenario.answer is not None, **more
    )
    async with asyncio.timeout(PATIENCE):
        session = await agent.open(spec)
    try:
        async with asyncio.timeout(PATIENCE):
            played = await go_through(session, scenario, running)
        yield played
    finally:
        async with asyncio.timeout(PATIENCE):
            await session.close()


async def go_through(session: Session, scenario: Scenario, running: Callable[[], bool] | None = None) -> Played:
    events: list[AnyEvent] = []
    reader = session.events()
    seconds, refused = 0.0, ""
    jobs = []
    for text in scenario.prompts:
        turn = await session.prompt(Prompt(text=text))
        async for event in reader:
            events.append(event)
            if isinstance(event, Asked) and scenario.answer is not None:
                answer = scenario.answer
                await session.answer(event.request, answer(event) if callable(answer) else answer)
            if scenario.more and isinstance(event, ToolStarted):
                try:
                    assert await session.steer(turn, scenario.more)
                except Unsupported as error:
                    refused = str(error)
            if scenario.interrupt and isinstance(event, ToolStarted):
                while running is not None and not running():
                    await asyncio.sleep(0.05)
                began = time.monotonic()
                jobs.append(asyncio.create_task(session.interrupt(turn, "enough")))
            if isinstance(event, TurnEnded) and event.turn == turn:
                seconds = time.monotonic() - began if jobs else 0.0
                break
    await asyncio.gather(*jobs)
    await asyncio.sleep(0)
    return Played(session, [*events, *reader.ready()], seconds, refused)


# What must hold, whatever was played...


def check_always(played: Played) -> None:
    """Turns begin and end once each; every tool that started ended; the text that was streamed is the text."""
    starts = [event.turn for event in played.of(TurnStarted)]
    assert starts == [event.turn for event in played.ends], "each turn ends exactly once"
    for end in played.ends:
        events = [event for event in played.events if event.turn == end.turn]
        assert events[-1] is end, f"after the end came {events[-1]}"
        streamed: list[str] = []
        for event in events:
            if isinstance(event, TextDelta) and event.parent is None:
                streamed.append(event.text)
            elif isinstance(event, Message) and event.kind == "text" and event.parent is None:
                assert "".join(streamed) == event.text
                if event is not events[-2]:
                    last, streamed = event.text, []
        if end.outcome == "completed":
            assert end.text == ("".join(streamed) or last)
    open_calls = {event.call for event in played.of(ToolStarted)}
    assert open_calls == {event.call for event in played.of(ToolEnded)}
    denied = {event.call for event in played.of(ToolDenied)}
    assert not [event for event in played.of(ToolEnded) if event.call in denied and event.ok]
    for usage in played.of(Usage):
        assert usage.source == "provider"
        assert min(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens) >= 0
        assert usage.cost_usd is None or usage.cost_usd > 0


def _text(played: Played) -> None:
    assert [end.outcome for end in played.ends] == ["completed"]
    assert played.ends[0].text == HELLO
    assert len(played.of(TextDelta)) > 1, "it streams"
    used = played.of(Usage)
    if used:
        assert sum(each.output_tokens for each in used) == USED.output
        assert sum(each.prompt_tokens for each in used) == USED.input + USED.cache_read
    levels = played.session.info.capabilities
    assert bool(used) or not can(levels, "usage")
    assert not can(levels, "cost") or any(each.cost_usd is not None for each in used)
    assert not can(levels, "iterations") or played.ends[0].iterations == 1


def _tool(played: Played) -> None:
    assert [end.outcome for end in played.ends] == ["completed"]
    assert played.ends[0].text == DONE
    assert list(played.tools().values()) == ["ok"]
    started, ended = played.of(ToolStarted)[0], played.of(ToolEnded)[0]
    assert started.kind == "execute" and "echo tool-output" in (started.command or "")
    if played.session.info.capabilities.get("results") != "unsupported":
        assert "tool-output" in ended.result


def _file(played: Played) -> None:
    assert [end.outcome for end in played.ends] == ["completed"]
    assert list(played.tools().values()) == ["ok"]
    if played.session.info.capabilities.get("file_changes", "unsupported") != "unsupported":
        (change,) = played.of(FileChanged)
        assert change.path.endswith("note.txt") and change.change == "added"
        assert "+hello" in change.diff


def _allowed(played: Played) -> None:
    assert [end.outcome for end in played.ends] == ["completed"]
    asked = played.of(Asked)
    assert len(asked) == 1 and asked[0].kind == "permission" and "touch marker.txt" in (asked[0].command or "")
    assert list(played.tools().values()) == ["ok"]


def _denied(played: Played) -> None:
    (end,) = played.ends
    assert end.outcome == "completed" and "cancelled" not in end.text, (
        "a denial is neither an end of its own nor an answer"
    )
    assert len(played.of(Asked)) == 1
    assert list(played.tools().values()) == ["denied by person"]


def _nobody(played: Played) -> None:
    assert not played.of(Asked)
    assert list(played.tools().values()) == ["denied by nobody"]
    assert "no one" in played.of(ToolDenied)[0].reason


def _ruled(played: Played) -> None:
    assert not played.of(Asked)
    assert list(played.tools().values()) == ["denied by rule"]
    assert "Bash(touch *)" in played.of(ToolDenied)[0].reason


def _interrupted(played: Played) -> None:
    assert [end.outcome for end in played.ends] == ["interrupted", "completed"]
    assert list(played.tools().values()) == ["failed"]
    assert played.ends[1].text == HELLO, "it goes on with the next prompt"


def _another_input(played: Played) -> None:
    """It runs as it was approved, or not at all, and then the denial says what was approved."""
    able = can(played.session.info.capabilities, "changed_input")
    assert {event.changeable for event in played.of(Asked)} == {able}
    if able:
        assert list(played.tools().values()) == ["ok"]
        assert [OTHER in (event.command or "") for event in played.of(ToolStarted)] == [True]
    else:
        assert set(played.tools().values()) == {"denied by person"}
        assert all(OTHER in event.reason for event in played.of(ToolDenied))


def _told_more(played: Played) -> None:
    """What it was told reaches its model in the same turn, or it is refused and nothing is told."""
    assert [end.outcome for end in played.ends] == ["completed"]
    if can(played.session.info.capabilities, "steer"):
        assert played.ends[0].text in (HELLO, DONE) and not played.refused  # one wraps it in words of its own
    else:
        assert played.ends[0].text == DONE and "cannot be given a message while it works" in played.refused


def _failed(played: Played) -> None:
    (end,) = played.ends
    assert end.outcome == "failed" and end.error is not None
    assert end.error.code == "auth_failed" or any(word in str(end.error) for word in ("401", "the key is wrong"))
    assert len(played.of(Failed)) == 1


def other_input(asked: Asked) -> Answer:
    given = asked.args if isinstance(asked.args, dict) else {}
    return Answer(decision="allow", changed_args={**given, "command": OTHER})


ALLOW, DENY = Answer(decision="allow"), Answer(decision="deny", text="not today")
SCENARIOS = [
    Scenario("text", ("[[hello]]",), _text),
    Scenario("tool", ("[[tool]]",), _tool),
    Scenario("file", ("[[write]]",), _file),
    Scenario("allowed", ("[[touch]]",), _allowed, mode="suggest", answer=ALLOW, needs=("permissions",)),
    Scenario("denied", ("[[touch]]",), _denied, mode="suggest", answer=DENY, needs=("permissions",)),
    Scenario("nobody", ("[[touch]]",), _nobody, mode="suggest", needs=("permissions",)),
    Scenario("ruled", ("[[touch]]",), _ruled, rules=Rules(deny=("Bash(touch *)",)), needs=("permissions",)),
    Scenario("interrupted", ("[[sleep]]", "[[hello]]"), _interrupted, interrupt=True),
    Scenario("failed", ("[[fail]]",), _failed),
    Scenario(
        "another_input", ("[[touch]]",), _another_input, mode="suggest", answer=other_input, needs=("permissions",)
    ),
    Scenario("told_more", ("[[wait]]",), _told_more, more="[[hello]]"),
]
NAMED = {scenario.name: scenario for scenario in SCENARIOS}


def fits(card: Any, scenario: Scenario) -> bool:
    return all(can(card.capabilities, need) for need in scenario.needs)
