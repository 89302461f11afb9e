"""A session of our own agent: resumed, forked, changed, interrupted, closed."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import Opened
from tests.agent.opened import SAY, WRITE, of, turn
from tests.scripts import calls, reply, says
from treadle.agent.context import estimate
from treadle.agent.messages import UserMessage
from treadle.agent.session import NativeSession
from treadle.agent.transcript import Transcript, well_formed
from treadle.errors import Busy, LocalError
from treadle.events import (
    Asked,
    Closed,
    ContextCompacted,
    ContextPruned,
    FileChanged,
    Task,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Warned,
)
from treadle.io.paths import config_file
from treadle.session import Answer, Change, HookVerdict, OwnProgram, Prompt, Rules, Subagent
from treadle.sessions.served import run_turn


async def test_words_for_a_turn_that_has_no_step_left_are_refused(opened: Opened) -> None:
    session = await opened('[[reply]]\ntext = "1. write made.txt"\n' + SAY, mode="plan", answers=True)
    heard = []
    async for event in run_turn(session, "go"):
        if isinstance(event, TurnStarted):
            heard.append(await session.steer(event.turn, "early"))
        if isinstance(event, Asked):
            heard.append(await session.steer(event.turn, "while the plan is read"))
            await session.answer(event.request, Answer(decision="deny"))
    assert heard == [True, False]
    assert [message.text for message in session.context.messages if isinstance(message, UserMessage)] == ["go", "early"]


async def test_a_session_is_resumed_with_its_history_and_its_spending(opened: Opened) -> None:
    first = await opened(SAY)
    await turn(first, "remember me")
    await first.close()
    again = await opened('[[reply]]\ntext = "yes"\n', resume=first.id)
    assert again.id == first.id and again.spent.total_tokens == 10
    await turn(again, "do you?")
    said = [message.text for message in Transcript.read(first.id).view()]
    assert said == ["remember me", "done", "do you?", "yes"]


async def test_a_fork_goes_its_own_way(opened: Opened) -> None:
    first = await opened(SAY)
    await turn(first, "one")
    fork = await opened(SAY, resume=first.id, fork=True)
    assert fork.id != first.id
    await turn(fork, "two")
    assert len(Transcript.read(first.id).view()) == 2 and len(Transcript.read(fork.id).view()) == 4


@pytest.mark.parametrize("fork", [False, True])
async def test_what_was_denied_when_it_began_is_denied_when_it_goes_on(opened: Opened, fork: bool) -> None:
    first = await opened(SAY, mode="full-auto", rules=Rules(deny=("Write",)))
    await turn(first, "one")
    await first.close()
    again = await opened(WRITE + SAY, mode="full-auto", resume=first.id, fork=fork, rules=Rules(deny=("WebFetch",)))
    events = await turn(again, "two")
    [denied] = of(events, ToolDenied)
    assert "the rule Write" in denied.reason and os.listdir(again.spec.cwd) == []
    assert [*again.spec.rules.deny] == ["Write", "WebFetch"]


async def test_an_open_session_is_not_opened_twice(opened: Opened) -> None:
    first = await opened(SAY)
    with pytest.raises(Busy):
        await opened(SAY, resume=first.id)


async def test_rewind_undoes_the_files_of_a_turn(opened: Opened) -> None:
    session = await opened(SAY + WRITE + SAY, mode="auto-edit")
    await turn(session, "first")
    events = await turn(session, "second")
    made = Path(session.spec.cwd, "made.txt")
    assert made.exists()
    session.rewind(events[0].turn)
    assert not made.exists() and [message.text for message in session.context.messages] == ["first", "done"]


async def test_model_and_mode_can_be_changed_between_turns(opened: Opened, tmp_path: Path) -> None:
    session = await opened(WRITE + SAY)
    other = tmp_path / "other.toml"
    other.write_text(WRITE + '[[reply]]\ntext = "from another model"\n')
    await turn(session)
    await session.configure(Change(model=f"scripted:{other}", mode="auto-edit"))
    events = await turn(session)
    assert events[-1].text == "from another model" and len(of(events, FileChanged)) == 1


async def test_the_last_session_is_one_in_which_something_was_said(opened: Opened) -> None:
    first = await opened(SAY)
    await turn(first)
    await first.close()
    await (await opened(SAY)).close()
    assert (await opened(SAY, resume="")).id == first.id


async def test_a_turn_interrupted_mid_stream_can_be_followed_by_another(opened: Opened) -> None:
    session = await opened('[[reply]]\ntext = "one two three four five"\npace = 0.2\n' + SAY)
    events = []
    async for event in run_turn(session, "go"):
        events.append(event)
        if isinstance(event, TextDelta):
            await session.interrupt(event.turn, "enough")
    ended = events[-1]
    assert isinstance(ended, TurnEnded) and ended.outcome == "interrupted" and ended.text == "one "
    assert (await turn(session, "again"))[-1].text == "done"
    said = [message.text for message in Transcript.read(session.id).view()]
    assert said == ["go", "one ", "again", "done"]


async def test_closing_twice_and_using_afterwards_is_safe(opened: Opened) -> None:
    session = await opened(SAY)
    await asyncio.gather(session.close(), session.close())
    await session.close()
    with pytest.raises(LocalError, match="this session is closed"):
        await session.prompt(Prompt(text="hello?"))
    assert [type(event) for event in session.events(after=0, observer=True).ready()].count(Closed) == 1


BUSY = (
    reply(
        when="^go$",
        text="I look at it first.",
        piece=3,
        call=[
            {"name": "read_file", "arguments": {"file_path": "a.txt"}},
            {"name": "grep", "arguments": {"pattern": "x"}},
            {"name": "write_file", "arguments": {"file_path": "new.txt", "content": "hello"}},
            {"name": "bash", "arguments": {"command": "(setsid sleep 1000 &) ; echo one; sleep 0.05"}},
            {"name": "bash", "arguments": {"command": "sleep 1000", "background": True}},
            {"name": "task", "arguments": {"description": "d", "prompt": "child work"}},
        ],
    )
    + calls("bash", {"command": "sleep 0.05; echo two"}, when="child work", system="for another agent")
    + says("child is done", system="for another agent", times="always")
    + says("fine", when="^again$", times="always")
    + says("done with all of it now", times="always", piece=2, pace=0.002)
)


@pytest.mark.parametrize("moment", [0, 3, 17, 60, 0.02, 0.08, 0.15, 0.25, 0.35])
async def test_interrupted_at_any_moment_a_turn_ends_once_and_the_session_goes_on(
    opened: Opened, mark: str, moment: float
) -> None:
    """After so many steps of the loop, or so many seconds."""
    session = await opened(BUSY, mode=None, env={"HOSTILE_MARK": mark, "PATH": os.environ["PATH"]})
    Path(session.spec.cwd, "a.txt").write_text("x\n")
    reader = session.events()
    first = await session.prompt(Prompt(text="go"))
    if isinstance(moment, int):
        for _ in range(moment):
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(moment)
    await asyncio.gather(session.interrupt(first, "enough"), session.interrupt(first, "enough"))
    second = await session.prompt(Prompt(text="again"))
    events = []
    async with asyncio.timeout(60):
        async for event in reader:
            events.append(event)
            if isinstance(event, TurnEnded) and event.turn == second:
                break
    assert [ended.turn for ended in of(events, TurnEnded)] == [first, second] and events[-1].text == "fine"
    assert {event.call for event in of(events, ToolStarted)} == {event.call for event in of(events, ToolEnded)}
    assert session.context.messages == well_formed(session.context.messages)
    assert Transcript.read(session.id).view() == session.context.messages
    await session.close()


async def test_a_history_with_lines_that_cannot_be_read_is_resumed_and_says_so(opened: Opened) -> None:
    session = await opened(SAY)
    await turn(session)
    await session.close()
    with Path(session.transcript.directory, "history.jsonl").open("ab") as history:
        history.write(b'{"type":"from_the_future"}\n{"type":"message","mess')
    again = await opened(SAY, resume=session.id)
    reader = again.events()
    [warned] = of(reader.ready(), Warned)
    reader.close()
    assert warned.code == "history" and warned.message.startswith("2 lines")
    assert (await turn(again))[-1].text == "done"
    assert len(Transcript.read(again.id).view()) == 4


UNCOUNTED = '[[reply]]\ntext = "done"\n'


READS = '[[reply]]\n[[reply.call]]\nname = "read_file"\narguments = {{ file_path = "{name}" }}\n'


async def test_after_a_change_to_a_smaller_model_the_conversation_fits_its_window(
    opened: Opened, tmp_path: Path
) -> None:
    names = [f"part{number}.txt" for number in range(8)]
    for name in names:
        (tmp_path / "work" / name).write_text(f"{name} says a little\n" * 1500)
    large = "context_window = 200_000\n" + "".join(READS.format(name=name) for name in names) + UNCOUNTED
    small = tmp_path / "small.toml"
    small.write_text("context_window = 16_000\n" + UNCOUNTED * 3)
    session = await opened(large)
    await turn(session)
    assert session.context.tokens() > 40_000
    await session.configure(Change(model=f"scripted:{small}"))
    events = await turn(session, "and now?")
    assert any(isinstance(event, ContextPruned | ContextCompacted) for event in events)
    assert sum(map(estimate, session.context.messages)) < 16_000


def warned(session: NativeSession) -> list[str]:
    return [event.message for event in session.events(after=0, observer=True).ready() if isinstance(event, Warned)]


async def test_what_the_settings_and_the_caller_want_said_is_in_the_prompt(opened: Opened, work: Path) -> None:
    (work / ".claude" / "output-styles").mkdir(parents=True)
    (work / ".claude" / "output-styles" / "terse.md").write_text("Be brief.")
    config = Path(config_file())
    config.parent.mkdir(exist_ok=True)
    config.write_text('append_system_prompt = "From the file."\nlanguage = "German"\noutput_style = "terse"\n')
    german = "Always answer in German, whatever language the files are in."
    session = await opened(SAY)
    assert session.system().endswith(f"\n\nBe brief.\n\nFrom the file.\n\n{german}") and warned(session) == []
    more = {"language": "French", "output_style": "none"}
    session = await opened(SAY, append_system_prompt="Mine.", extra=more)
    assert session.system().endswith("\n\nMine.\n\n" + german.replace("German", "French"))
    assert "Be brief." not in session.system()
    assert warned(session) == ["there is no output style 'none': the usual one is used"]
    session = await opened(SAY, project=False)
    assert "Be brief." not in session.system() and warned(session) == []


async def test_skills_and_agents_of_files_are_read_where_their_tools_are_offered(opened: Opened, work: Path) -> None:
    for folder, name in (("skills/weave", "SKILL.md"), ("agents", "scout.md")):
        (work / ".claude" / folder).mkdir(parents=True)
        (work / ".claude" / folder / name).write_text("---\ndescription: d\n---\nx")
    (work / ".claude" / "agents" / "bad.md").write_text("---\npermissionMode: plan\n---\nx")
    session = await opened(SAY)
    assert "- weave: d" in session.system() and "scout" in session.info.subagents and "skill" in session.info.tools
    assert len(warned(session)) == 1 and "bad.md is not used" in warned(session)[0]
    session = await opened(SAY, tools=("bash",))
    assert "weave" not in session.system() and "scout" not in session.info.subagents and warned(session) == []
    assert (session.info.tools, session.info.models, session.info.mode) == (("bash",), ("scripted",), "suggest")


async def test_hooks_hear_how_a_session_starts_and_add_to_prompts_or_block_them(opened: Opened, work: Path) -> None:
    asked = "grep -q secret && { echo no >&2; exit 2; }; echo remember"
    hooks = {"SessionStart": "cat > started.json; echo be quick", "UserPromptSubmit": asked}
    entries = {event: [{"hooks": [{"command": command}]}] for event, command in hooks.items()}
    (work / ".claude").mkdir()
    (work / ".claude" / "settings.json").write_text(json.dumps({"hooks": entries}))
    session = await opened(SAY, trusted=True)
    started = json.loads((work / "started.json").read_text())
    assert (started["source"], started["model"]) == ("startup", "scripted")
    ended = (await turn(session, "the secret"))[-1]
    assert isinstance(ended, TurnEnded)
    assert (ended.outcome, ended.text) == ("completed", "a hook blocked the prompt: no")
    await turn(session, "go")
    assert [message.text.strip() for message in session.context.messages] == ["be quick", "remember", "go", "done"]
    await session.close()
    await opened(SAY, trusted=True, resume=session.id)
    assert json.loads((work / "started.json").read_text())["source"] == "resume"


async def test_a_hook_may_say_more_to_a_subagent_whose_tools_are_those_of_its_kind(opened: Opened) -> None:
    told: list[dict[str, Any]] = []

    async def event(name: str, payload: dict[str, Any]) -> HookVerdict | None:
        told.append({"event": name, **payload})
        return HookVerdict(context="Mind the gap.") if name == "SubagentStart" else None

    script = says("minded", system="You carry out one task(?s:.*)Mind the gap", times="always")
    session = await opened(script, program=OwnProgram(event=event))
    result = await session.command("agent", "run count")
    assert result is not None and result.message == "minded"
    assert {"event": "SubagentStart", "agent_id": "agent_1", "agent_type": "general-purpose"} in told
    task = Task(id="t", kind="agent", label="l", status="running", cwd=session.spec.cwd)
    kind = Subagent(name="k", description="", prompt="p", tools=("grep", "task", "none", "bash"), denied=("bash",))
    child = await session.open_child("t", kind, task)
    assert child.tools.names == ("grep",) and child.provider is session.provider
    await child.close()
    assert (await session.command("agent", "run count")).message == "minded", "the model is not closed with it"  # type: ignore[union-attr]


async def test_what_files_a_person_mentions_is_shown_only_where_it_could_be_read(opened: Opened, work: Path) -> None:
    (work / "notes.txt").write_text("remember the heron")
    shown = []
    for verbatim, tools in ((False, None), (False, ("bash",)), (True, None)):
        session = await opened(SAY, tools=tools)
        reader = session.events(after=-1)
        await session.prompt(Prompt(text="see @notes.txt", verbatim=verbatim))
        async for event in reader:
            if isinstance(event, TurnEnded):
                break
        reader.close()
        shown.append("heron" in session.context.messages[0].text)
    assert shown == [True, False, False]
