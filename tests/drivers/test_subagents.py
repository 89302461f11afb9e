"""What a subagent says and does carries the call that started it, and is not the answer. From recordings, which
`tests/live/test_subagents.py` makes with the real programs."""

from pathlib import Path
from typing import Any

import pytest

from tests.drivers.scenarios import DONE, Scenario, play
from tests.drivers.test_contract import RECORDED, UNHURRIED, replayed
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


def test_the_agents_that_say_it_were_recorded() -> None:
    assert {"codex", "qwen", "claude"} == {card.name for card in TELLING}
