"""Commands as a whole: help, the reference page, what is unknown or misused, and what runs beside a turn."""

import asyncio
from pathlib import Path

import pytest

from tests.agent.commands.conftest import ran
from tests.agent.conftest import SAY, Opened
from tests.test_docs import made
from tests.waiting import until
from treadle.agent import slash_commands
from treadle.events import TurnEnded, TurnStarted
from treadle.session import Prompt
from treadle.sessions.totals import run_turn

SLOW = '[[reply]]\ntext = "at last"\ndelay = 60\n' + SAY
PAGE = Path(__file__).parents[3] / "docs/reference/slash-commands.md"


def test_the_reference_page_is_the_registry() -> None:
    when = {"never": "", "with arguments": " With arguments not during a turn.", "always": " Not during a turn."}
    rows = [f"- `/{name}`: {one.help}{when[one.alone]}\n" for name, one in slash_commands.COMMANDS.items()]
    made(PAGE, "commands", "".join(rows))


@pytest.mark.parametrize("name", sorted(slash_commands.COMMANDS))
async def test_every_command_survives_empty_and_hostile_arguments(name: str, opened: Opened, work: Path) -> None:
    session = await opened()
    for args in ("", "   ", "\x00\x1b[31m", '"', "--", "--nonsense", "é" * 5000, "../../etc/passwd", "-1", "9" * 40):
        if name in ("agent", "background") and args in ("é" * 5000, "../../etc/passwd", "-1", "9" * 40, "\x00\x1b[31m"):
            continue  # that is a prompt for an agent, as good as any other
        result = await session.command(name, args)
        assert result is not None and (result.message or result.turn)


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


async def test_our_own_commands_cannot_be_replaced_by_a_project(opened: Opened, work: Path) -> None:
    folder = work / ".treadle" / "commands"
    folder.mkdir(parents=True)
    (folder / "permissions.md").write_text("say that all is well")
    session = await opened()
    assert "mode: suggest" in await ran(session, "permissions")
    assert [command.name for command in session.commands()] == list(slash_commands.COMMANDS)
    assert all(command.description != "say that all is well" for command in session.commands())
