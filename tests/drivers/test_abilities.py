"""A card is a contract: what it does not declare is refused by effect, and the agent is told nothing.

What it does declare is shown by `test_declared.py`.
"""

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from tests.agent.test_images import png
from tests.drivers.scenarios import NAMED, PATIENCE, Scenario, check_always, play
from tests.drivers.test_session import RECORDED, UNHURRIED, replayed
from tests.sessions.test_abilities import WISHES
from tests.test_docs import ROOT, made
from treadle.agents import _load, wrapped
from treadle.drivers.card import Card, Launch, cards
from treadle.errors import Unsupported
from treadle.events import Answered, Asked, TextDelta, ToolDenied, ToolStarted, Warned
from treadle.session import Answer, Change, Prompt, Reasoning, SessionSpec
from treadle.sessions.abilities import ABILITIES, can
from treadle.sessions.session import BaseSession

CHANGED = Answer(decision="allow", changed_args={"command": "touch other.txt"})


def cases(*names: str) -> list[tuple[Card, str]]:
    """Every card, with those of these abilities that it does not declare."""
    return [(card, name) for card in cards().values() for name in names if not can(card.capabilities, name)]


def ids(value: Card | str) -> str:
    return value if isinstance(value, str) else value.name


@pytest.mark.parametrize("card", cards().values(), ids=ids)
async def test_a_session_that_needs_it_is_refused_before_anything_is_started(card: Card, tmp_path: Path) -> None:
    started = tmp_path / "started"
    launch = Launch(argv=(sys.executable, "-c", f"open({str(started)!r}, 'w')"))
    agent = wrapped(_load(card.driver)(card, launch), card, launch)
    for ability, spec in WISHES.items():
        if not can(card.capabilities, ability):
            with pytest.raises(Unsupported, match=ABILITIES[ability].refusal):
                await agent.open(msgspec.structs.replace(spec, cwd=str(tmp_path)))
    assert not started.exists()


async def _asked_for(session: BaseSession, ability: str, turn: str) -> None:
    match ability:
        case "steer":
            await session.steer(turn, "MARKED")
        case "switch_model":
            await session.configure(Change(model="MARKED"))
        case "mode":
            await session.configure(Change(mode="plan"))
        case "effort":
            await session.configure(Change(thinking=Reasoning(effort="low")))
        case "images":
            await session.prompt(Prompt(text="MARKED", images=(png(),)))
        case "interrupt_call":
            session.emit(ToolStarted(call="c1", name="bash"))  # the recorded one may have ended by now
            await session.interrupt("c1", "this one")
        case other:
            raise AssertionError(f"there is no way to ask for {other}")


IN_SESSION = ("steer", "switch_model", "mode", "effort", "images", "interrupt_call")


@pytest.mark.parametrize(
    ("card", "ability"), [case for case in cases(*IN_SESSION) if case[0].name in RECORDED], ids=ids
)
async def test_what_is_asked_of_a_session_is_refused_and_the_agent_hears_nothing_of_it(
    card: Card, ability: str, tmp_path: Path
) -> None:
    noted = tmp_path / "noted"
    agent = replayed(card, "interrupted", patience=UNHURRIED, noted=noted)
    async with asyncio.timeout(PATIENCE):
        session = await agent.open(SessionSpec.of(cwd=str(tmp_path), mode="full-auto"))
        reader = session.events()
        turn = await session.prompt(Prompt(text="[[sleep]]"))
        async for event in reader:
            if isinstance(event, ToolStarted):
                break
        with pytest.raises(Unsupported, match=f"{card.name} {ABILITIES[ability].refusal}"):
            await _asked_for(session, ability, turn)
        heard = noted.read_text()
        await session.interrupt(turn)
        await session.close()
    signs = ("MARKED", "set_max_thinking_tokens", "stop_task", "turn/interrupt", "session/cancel", '"abort"')
    assert "[[sleep]]" in heard and not [sign for sign in signs if sign in heard]


@pytest.mark.parametrize("card", [card for card, _ in cases("changed_input") if card.name in RECORDED], ids=ids)
async def test_an_approval_of_another_input_is_a_denial_that_says_what_was_approved(card: Card, tmp_path: Path) -> None:
    scenario = Scenario("denied", NAMED["denied"].prompts, lambda played: None, mode="suggest", answer=CHANGED)
    async with play(replayed(card, "denied", patience=UNHURRIED), scenario, tmp_path) as played:
        check_always(played)
        (asked,), (answered,) = played.of(Asked), played.of(Answered)
        (denied,) = played.of(ToolDenied)
        assert not asked.changeable and answered.decision == "deny" and denied.by == "person"
        assert "touch other.txt" in denied.reason and "make a new call with exactly this input" in denied.reason
        assert "changed_input" in [warned.code for warned in played.of(Warned)]


@pytest.mark.parametrize("card", [card for card, _ in cases("commands") if card.name in RECORDED], ids=ids)
async def test_an_agent_without_commands_knows_none(card: Card, tmp_path: Path) -> None:
    async with play(replayed(card, "text"), NAMED["text"], tmp_path) as played:
        assert played.session.commands() == [] and await played.session.command("compact", "") is None
        assert played.of(TextDelta)


def test_the_table_in_the_docs_is_made_from_the_cards() -> None:
    page, alike = ROOT / "docs" / "reference" / "agents.md", dict[tuple[bool, ...], list[str]]()
    for name, card in cards().items():
        alike.setdefault(tuple(card.capabilities[each] != "unsupported" for each in ABILITIES), []).append(name)
    groups: dict[str, list[str]] = {}
    for (ability, about), able in zip(ABILITIES.items(), zip(*alike, strict=True), strict=True):
        has = [names[0] for names, can in zip(alike.values(), able, strict=True) if can]
        lacks = [names[0] for names, can in zip(alike.values(), able, strict=True) if not can]
        who = ", ".join(has) or "only native"
        if 2 * len(has) > len(able):
            who = f"all but {', '.join(lacks)}" if lacks else "all"
        groups.setdefault(who, []).append(f"`{ability}` ({about.what})")
    lines = [f"- {who}: {', '.join(abilities)}\n" for who, abilities in groups.items()]
    lines += ["\n", *(f"Like {names[0]}: {', '.join(names[1:])}.\n" for names in alike.values() if names[1:])]
    made(page, "abilities", "".join(lines))
    warned = [f"- `{name}`: {one.routine}" for name, one in ABILITIES.items() if one.routine]
    made(page, "warned", "\n".join(warned) + "\n")
