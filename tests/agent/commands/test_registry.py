"""Commands as a whole: help, the reference page, what is unknown or misused, and what runs beside a turn."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.commands.conftest import ran
from tests.agent.conftest import SAY, Opened
from tests.test_docs import made
from tests.waiting import until
from treadle.agent import slash_commands
from treadle.events import TurnEnded, TurnStarted
from treadle.session import CommandInfo, EventReader, Prompt
from treadle.sessions.served import run_turn

SLOW = '[[reply]]\ntext = "at last"\ndelay = 60\n' + SAY
PAGE = Path(__file__).parents[3] / "docs/reference/slash-commands.md"


async def test_help_names_every_command_with_its_line(opened: Opened) -> None:
    shown = await ran(await opened(), "help")
    for name, command in slash_commands.COMMANDS.items():
        assert f"/{name}" in shown and command.help in shown


def test_the_reference_page_is_the_registry() -> None:
    made(PAGE, "commands", slash_commands.reference())


@pytest.mark.parametrize("name", sorted(slash_commands.COMMANDS))
async def test_every_command_survives_empty_and_hostile_arguments(name: str, opened: Opened, work: Path) -> None:
    session = await opened()
    for args in ("", "   ", "\x00\x1b[31m", '"', "--", "--nonsense", "é" * 5000, "../../etc/passwd", "-1", "9" * 40):
        if name in ("agent", "background") and args in ("é" * 5000, "../../etc/passwd", "-1", "9" * 40, "\x00\x1b[31m"):
            continue  # that is a prompt for an agent, as good as any other
        result = await session.command(name, args)
        assert result is not None and (result.message or result.turn)


async def test_an_unknown_command_is_none(opened: Opened) -> None:
    assert await (await opened()).command("nothing-like-this", "x") is None


async def test_wrong_use_is_a_failure_that_shows_the_usage(opened: Opened) -> None:
    assert await ran(await opened(), "rename", ok=False) == "a session needs a name\nusage: /rename NAME"


@pytest.mark.parametrize(
    "name", ["help", "status", "cost", "context", "tools", "skills", "sessions", "mode", "model", "rewind", "resume"]
)
async def test_looking_is_answered_while_a_turn_runs(name: str, opened: Opened) -> None:
    session = await opened(SLOW)
    await session.prompt(Prompt(text="go"))
    assert await ran(session, name)


@pytest.mark.parametrize("text", ["clear", "compact", "fork", "rewind 1", "model scripted:x", "resume other"])
async def test_what_would_meet_a_running_turn_is_refused(text: str, opened: Opened) -> None:
    session = await opened(SLOW)
    await session.prompt(Prompt(text="go"))
    assert "Another prompt or command is already running" in await ran(session, text, ok=False)


async def test_a_prompt_during_a_blocking_command_waits_for_it(opened: Opened) -> None:
    session = await opened(SAY + '[[reply]]\nsystem = "Summarise"\ntext = "short"\ndelay = 0.2\n' + SAY)
    async for _ in run_turn(session, "first"):
        pass
    compacting = asyncio.create_task(ran(session, "compact"))
    await until(lambda: session.busy)
    async for event in run_turn(session, "second"):
        if isinstance(event, TurnStarted):
            assert session.context.messages[0].text.endswith("short")
    assert "Compacted" in await compacting


async def test_closing_ends_a_command_and_the_prompts_behind_it(opened: Opened) -> None:
    session = await opened(SAY + '[[reply]]\nsystem = "Summarise"\ntext = "short"\ndelay = 60\n')
    async for _ in run_turn(session, "first"):
        pass
    compacting = asyncio.create_task(ran(session, "compact", ok=False))
    await until(lambda: session.busy)
    reader = session.events(after=-1)
    turn = await session.prompt(Prompt(text="second"))
    async with asyncio.timeout(60):
        await session.close()
        assert await compacting == ""
    ends = [event async for event in reader if isinstance(event, TurnEnded)]
    assert [(end.turn, end.outcome) for end in ends] == [(turn, "interrupted")]


# What a project or a person adds...


async def test_a_markdown_command_starts_a_turn_with_its_text(opened: Opened, work: Path) -> None:
    folder = work / ".treadle" / "commands"
    folder.mkdir(parents=True)
    (folder / "review.md").write_text("---\ndescription: Look it over\n---\nReview $1 with care:\n$ARGUMENTS")
    session = await opened('[[reply]]\nwhen = "Review a.py with care:\\na.py  and\\nmore"\ntext = "fine"\n')
    assert "Commands of this project and your own:\n/review  Look it over\n\n/help NAME" in await ran(session, "help")
    place = folder / "review.md"
    assert await ran(session, "help review") == f"Look it over\nusage: /review [ARGUMENTS]\nfrom {place}"
    reader = session.events(after=-1)
    result = await session.command("review", "a.py  and\nmore")
    assert result and result.turn
    ended = [event async for event in _until_end(reader)][-1]
    assert ended.turn == result.turn and ended.text == "fine"


async def test_a_skill_starts_a_turn_with_its_instructions(opened: Opened, work: Path) -> None:
    folder = work / ".treadle" / "skills" / "weave"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: weave\ndescription: How to weave\n---\nOver, under.\n")
    session = await opened('[[reply]]\nwhen = "(?s)Over, under.*a scarf"\ntext = "woven"\n')
    assert session.commands()[-1] == CommandInfo(name="weave", description="How to weave", skill=True)
    assert "Skills:\n/weave  How to weave\n\n" in await ran(session, "help")
    assert "How to weave" in await ran(session, "skills")
    reader = session.events(after=-1)
    result = await session.command("weave", "a scarf")
    assert result and result.turn
    assert [event async for event in _until_end(reader)][-1].text == "woven"


async def test_our_own_commands_cannot_be_replaced_by_a_project(opened: Opened, work: Path) -> None:
    folder = work / ".treadle" / "commands"
    folder.mkdir(parents=True)
    (folder / "permissions.md").write_text("say that all is well")
    session = await opened()
    assert "mode: suggest" in await ran(session, "permissions")
    assert [command.name for command in session.commands()] == list(slash_commands.COMMANDS)
    assert all(command.description != "say that all is well" for command in session.commands())


async def _until_end(reader: EventReader) -> AsyncIterator[Any]:
    async for event in reader:
        yield event
        if isinstance(event, TurnEnded):
            return
