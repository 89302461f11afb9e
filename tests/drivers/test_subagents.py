"""What a subagent says and does carries the call that started it, and is not the answer. From recordings, which
`tests/live/test_subagents.py` makes with the real programs."""

from pathlib import Path
from typing import Any

import pytest

from tests.drivers.scenarios import DONE, Scenario, play
from tests.drivers.test_session import RECORDED, UNHURRIED, replayed
from treadle.drivers.card import Card
from treadle.events import CommandRun, ToolEnded, ToolStarted, TurnEnded, Usage

PROMPT = "[[delegate]]"
HERE = Path(__file__).parent
TELLING = [card for card in RECORDED.values() if (HERE / card.name / "recordings" / "subagent.jsonl").exists()]


def check(events: list[Any]) -> None:
    (started,) = [
        event for event in events if isinstance(event, ToolStarted) and "tool-output" in (event.command or "")
    ]
    inside = [event for event in events if event.parent == started.parent]
    (starter,) = [event for event in events if isinstance(event, ToolStarted) and event.call == started.parent]
    assert started.parent and starter.parent is None
    assert {ToolStarted, ToolEnded, CommandRun} <= {type(event) for event in inside}
    assert isinstance(events[-1], TurnEnded) and events[-1].text == DONE
    assert sum(event.output_tokens for event in events if isinstance(event, Usage)) >= 15, "its tokens count, too"


@pytest.mark.parametrize("card", TELLING, ids=lambda card: card.name)
async def test_a_subagents_events_have_a_parent(card: Card, tmp_path: Path) -> None:
    scenario = Scenario("subagent", (PROMPT,), lambda played: None)
    async with play(replayed(card, "subagent", patience=UNHURRIED), scenario, tmp_path) as played:
        check(played.events)


async def test_claudes_hook_says_whose_call_it_is_before_the_message_with_the_call_has_come(tmp_path: Path) -> None:
    lines = (HERE / "claude" / "recordings" / "subagent.jsonl").read_text().splitlines()
    message = next(place for place, line in enumerate(lines) if '"type": "assistant"' in line and "call_tool" in line)
    answer = next(place for place in range(message, len(lines)) if lines[place].startswith('{"dir": "in"'))
    lines.insert(answer, lines.pop(message))  # it is said only when our answer to the hook has been read
    late = tmp_path / "late.jsonl"
    late.write_text("\n".join(lines) + "\n")
    scenario = Scenario("subagent", (PROMPT,), lambda played: None)
    async with play(replayed(RECORDED["claude"], str(late), patience=UNHURRIED), scenario, tmp_path) as played:
        check(played.events)


def test_the_agents_that_say_it_were_recorded() -> None:
    assert {"codex", "qwen", "claude"} == {card.name for card in TELLING}
