"""What an agent does not declare is refused, in one place, with the reason, whatever kind of session it is."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

import treadle.agent.session
import treadle.drivers.acp.driver
import treadle.drivers.claude.driver
import treadle.drivers.codex.driver
import treadle.drivers.pi.driver
import treadle.drivers.sidecar.driver
import treadle.drivers.worker.driver
from tests.stand_ins.sessions import ScriptedSession, Step
from treadle.errors import Unsupported
from treadle.events import Answered, Asked, TaskChanged, ToolStarted, Warned
from treadle.session import Answer, Change, Limits, Prompt, Reasoning, Rules, SessionSpec, Start, Subagent, Toolset
from treadle.sessions.abilities import ABILITIES, check, gaps
from treadle.sessions.session import BaseSession
from treadle.sessions.totals import run_turn

ASKED = Asked(request="q", kind="permission", text="may I?", name="bash", args={"command": "rm -r build"})
CHANGED = Answer(decision="allow", changed_args={"command": "rm -r build/tmp"})


def session(*turn: Step, cannot: tuple[str, ...] = ()) -> ScriptedSession:
    return ScriptedSession(SessionSpec(cwd="/", answers=True), [list(turn)], cannot)


async def answered(with_: Answer, *cannot: str) -> list[Any]:
    opened = session(ASKED, cannot=cannot)
    events = []
    async for event in run_turn(opened, "go"):
        events.append(event)
        if isinstance(event, Asked):
            await opened.answer(event.request, with_)
    await opened.close()
    return events


async def test_a_changed_input_that_the_agent_cannot_take_is_a_denial_with_the_words_to_try_again() -> None:
    events = await answered(CHANGED, "changed_input")
    (asked,) = [event for event in events if isinstance(event, Asked)]
    (said,) = [event for event in events if isinstance(event, Answered)]
    (warned,) = [event for event in events if isinstance(event, Warned)]
    assert not asked.changeable
    assert said.decision == "deny" and json.dumps(CHANGED.changed_args, separators=(",", ":")) in said.text
    assert "make a new call with exactly this input" in said.text and said.by == "person"
    assert warned.code == "changed_input" and "bash was denied" in warned.message


async def test_a_change_in_a_denial_changes_nothing() -> None:
    denied = Answer(decision="deny", text="no", changed_args={"command": "x"})
    (said,) = [event for event in await answered(denied, "changed_input") if isinstance(event, Answered)]
    assert (said.decision, said.text) == ("deny", "no")


async def test_a_message_to_an_agent_that_hears_none_while_it_works_is_refused() -> None:
    hold = asyncio.Event()
    opened = session(hold, cannot=("steer",))
    turn = await opened.prompt(Prompt(text="go"))
    for target in (turn, "another"):
        with pytest.raises(Unsupported, match="scripted cannot be given a message while it works") as caught:
            await opened.steer(target, "left")
    assert caught.value.hint and caught.value.details == {"ability": "steer"}
    hold.set()
    await opened.close()
    assert opened.steered == []


@pytest.mark.parametrize(
    ("ability", "change"),
    [
        ("switch_model", Change(model="m")),
        ("mode", Change(mode="plan")),
        ("effort", Change(thinking=Reasoning(tokens=0))),
    ],
)
async def test_what_cannot_be_changed_during_a_session_is_refused(ability: str, change: Change) -> None:
    opened = session(cannot=(ability,))
    with pytest.raises(Unsupported, match=f"scripted {ABILITIES[ability].refusal}"):
        await opened.configure(change)
    await opened.close()


async def test_a_call_and_a_task_that_cannot_be_stopped_alone_are_not_stopped_in_silence() -> None:
    hold = asyncio.Event()
    started = [ToolStarted(call="c1", name="bash"), TaskChanged(change="started", task_id="t1")]
    opened = session(*started, hold, cannot=("interrupt_call", "tasks"))
    reader = opened.events()
    await opened.prompt(Prompt(text="go"))
    async for event in reader:
        if isinstance(event, TaskChanged):
            break
    with pytest.raises(Unsupported, match="cannot stop a single call"):
        await opened.interrupt("c1")
    with pytest.raises(Unsupported, match="has no tasks to stop"):
        await opened.interrupt("t1")
    await opened.interrupt("nothing of ours")
    hold.set()
    await opened.close()


WISHES: dict[str, SessionSpec] = {
    "model": SessionSpec(cwd="/", model="m"),
    "effort": SessionSpec(cwd="/", thinking=Reasoning(effort="high")),
    "resume": SessionSpec(cwd="/", start=Start(resume="")),
    "fork": SessionSpec(cwd="/", start=Start(resume="x", fork=True)),
    "resume_at": SessionSpec(cwd="/", start=Start(at="y")),
    "rules": SessionSpec(cwd="/", mode="plan"),
    "sandbox": SessionSpec(cwd="/", confinement=treadle.session.Confinement(use="on")),
    "session_id": SessionSpec(cwd="/", start=Start(id="x")),
    "session_name": SessionSpec(cwd="/", start=Start(name="x")),
    "unsaved": SessionSpec(cwd="/", start=Start(persist=False)),
    "servers": SessionSpec(cwd="/", tools=Toolset(servers={"notes": {"command": "notes"}})),
    "servers_alone": SessionSpec(cwd="/", tools=Toolset(only_servers=True)),
    "sources": SessionSpec.of(cwd="/", instructions=treadle.session.Instructions(sources=("user",))),
    "bare": SessionSpec.of(cwd="/", project=False),
    "plugins": SessionSpec.of(cwd="/", instructions=treadle.session.Instructions(plugins=("/",))),
    "toolset": SessionSpec(cwd="/", tools=Toolset(offered=("bash",))),
    "add_dirs": SessionSpec(cwd="/", add_dirs=("/tmp",)),
    "system_prompt": SessionSpec.of(cwd="/", append_system_prompt="be brief"),
    "subagents": SessionSpec(cwd="/", subagents=(Subagent(name="a", description="d", prompt="p"),)),
    "skills": SessionSpec.of(cwd="/", instructions=treadle.session.Instructions(skills=("a",))),
    "hooks": SessionSpec(cwd="/", program=treadle.session.OwnProgram(pre_tool=lambda use: asyncio.sleep(0, None))),
    "own_tools": SessionSpec(
        cwd="/",
        program=treadle.session.OwnProgram(
            tools=(
                treadle.session.OwnTool(
                    name="t", description="d", parameters={}, call=lambda args: asyncio.sleep(0, "")
                ),
            )
        ),
    ),
    "usage": SessionSpec(cwd="/", limits=Limits(max_tokens=1)),
    "cost": SessionSpec(cwd="/", limits=Limits(max_cost_usd=1.0)),
    "iterations": SessionSpec(cwd="/", limits=Limits(max_iterations=1)),
    "repeats": SessionSpec(cwd="/", limits=Limits(repeats=9)),
    "tuning": SessionSpec(cwd="/", extra={"language": "en"}),
}
"""What asks for each ability that a session can be opened with."""


def test_every_ability_that_a_session_can_be_opened_with_is_tried() -> None:
    assert {name for name, ability in ABILITIES.items() if ability.wanted is not None} == WISHES.keys()
    assert all(ability.refusal for ability in ABILITIES.values() if ability.wanted is not None)


@pytest.mark.parametrize("ability", WISHES)
def test_a_session_that_wants_what_the_agent_cannot_do_is_refused(ability: str) -> None:
    able = {name: "unsupported" if name == ability else "native" for name in ABILITIES}
    wish = WISHES[ability]
    with pytest.raises(Unsupported) as caught:
        check("x", able, wish)
    assert caught.value.message == f"x {ABILITIES[ability].refusal}"
    assert gaps("x", able, wish) == []
    routine = msgspec.structs.replace(wish, routine=(ability,))
    check("x", able, routine)
    assert gaps("x", able, routine) == [f"x {ABILITIES[ability].refusal}"], "as every session asks for it: a warning"
    check("x", dict.fromkeys(ABILITIES, "native"), wish)
    check("x", {name: level for name, level in able.items() if name != "fork"}, SessionSpec(cwd="/"))


@pytest.mark.parametrize(
    ("ability", "spec"),
    [
        ("", SessionSpec(cwd="/", tools=Toolset(denied=("ask_user",)))),
        ("toolset", SessionSpec(cwd="/", tools=Toolset(denied=("ask_user", "bash")))),
        ("toolset", SessionSpec(cwd="/", tools=Toolset(offered=()))),
        ("", SessionSpec(cwd="/", start=Start(id="x", resume="x"))),
        ("session_id", SessionSpec(cwd="/", start=Start(id="x", resume="y"))),
        *(("rules", SessionSpec(cwd="/", rules=rules)) for rules in (Rules(ask=("bash",)), Rules(deny=("bash",)))),
        ("", SessionSpec(cwd="/", rules=Rules(allow=("bash",)), mode="full-auto")),
        ("system_prompt", SessionSpec.of(cwd="/", system_prompt="")),
        ("", SessionSpec(cwd="/", extra={"language": "", "output_style": None, "other": "on"})),
        *(
            ("tuning", SessionSpec(cwd="/", extra={name: "x"}))
            for name in ("context_tokens", "output_style", "language")
        ),
        ("effort", SessionSpec(cwd="/", thinking=Reasoning(tokens=0))),
        ("", SessionSpec(cwd="/", model="", limits=Limits(max_seconds=1.0))),
    ],
)
def test_what_asks_for_an_ability_and_what_does_not(ability: str, spec: SessionSpec) -> None:
    levels = {"resume": "native"}
    if not ability:
        return check("x", levels, spec)
    with pytest.raises(Unsupported) as caught:
        check("x", levels, spec)
    known = ABILITIES[ability]
    assert (caught.value.message, caught.value.hint) == (f"x {known.refusal}", known.hint)
    assert caught.value.details == {"ability": ability}


def test_every_field_that_a_session_can_be_opened_with_belongs_to_an_ability_or_is_ours_to_keep() -> None:
    """A new field of SessionSpec fails here until it is decided who keeps it, so that no agent loses it in silence."""
    fields = {
        f"{group}.{name}" if group else name
        for group, kind in (
            ("", SessionSpec),
            ("instructions", treadle.session.Instructions),
            ("tools", Toolset),
            ("start", Start),
            ("limits", Limits),
            ("program", treadle.session.OwnProgram),
        )
        for name in kind.__struct_fields__
        if group or name not in ("instructions", "tools", "start", "limits", "program")
    }
    assert fields == KEPT_BY_US | ASKED_OF_THE_AGENT


KEPT_BY_US = {
    *("cwd", "env", "inherit_env", "looks_freely", "rules", "mode", "answers", "answer_seconds", "guards"),
    *("confinement", "trusted", "routine", "extra", "limits.max_seconds", "limits.repeats", "tools.later"),
    *("model_wire", "record", "replay"),
    "program.stop",  # called when the turn of any agent has ended
    "start.handover",  # is the first prompt, of any agent
    *("start.at", "instructions.commands"),  # for our own agent; drivers refuse the first themselves
}
"""What holds around an agent whatever it can do: where and in which sandbox it runs, what is asked and how long."""
ASKED_OF_THE_AGENT = {
    *("model", "add_dirs", "thinking", "subagents", "tools.offered", "tools.denied", "tools.servers"),
    *("tools.only_servers", "instructions.system", "instructions.append", "instructions.project"),
    *("instructions.sources", "instructions.skills", "instructions.plugins", "start.resume", "start.fork", "start.id"),
    *("start.name", "start.persist", "limits.max_iterations", "limits.max_cost_usd", "limits.max_tokens"),
    *("program.tools", "program.pre_tool", "program.post_tool", "program.event"),
}
"""What an ability of the card stands for."""


def test_no_session_goes_around_the_check() -> None:
    """They define `_steer` and the like; what refuses is in BaseSession alone."""
    found = [BaseSession]
    for kind in found:
        found += [each for each in kind.__subclasses__() if each.__module__.startswith("treadle.")]
    checked = ("steer", "configure", "answer", "interrupt", "command")
    wrong = [f"{kind.__name__}.{name}" for kind in found[1:] for name in checked if name in vars(kind)]
    assert wrong == [] and len(found) > 8
    assert "prompt" not in vars(treadle.agent.session.NativeSession)
