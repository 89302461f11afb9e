"""Limits of a turn, and going in circles: both stop before the next model call."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.opened import of, turn
from tests.scripts import calls, says
from treadle.agent import loop as budgets
from treadle.agent.loop import Repeats, TurnBudget
from treadle.agent.messages import ToolCall
from treadle.agent.native import NativeAgent
from treadle.agent.providers.script import parse
from treadle.errors import LoopDetected, TimedOut
from treadle.events import Warned
from treadle.session import Limits, SessionSpec
from treadle.testing.server import ModelServer


def test_wall_time_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(budgets, "time", SimpleNamespace(monotonic=lambda: now))
    budget = TurnBudget(Limits(max_seconds=5))
    budget.check(0)
    assert budget.seconds_left() == 5
    now = 104.9
    budget.check(0)
    now = 105.0
    assert TurnBudget(Limits()).seconds_left() is None
    with pytest.raises(TimedOut, match="more than 5 s"):
        budget.check(0)


LONG = "word " * 8_000
CALL = {"input": 10_000, "output": 1_000}
"""What each call uses: at this model's price 0.045 USD."""


@pytest.mark.parametrize(
    ("limits", "prompt", "model", "asked", "why"),
    [
        ({"max_cost_usd": 0.2}, "hi", "m", 0, "what this model costs is unknown"),
        ({"max_cost_usd": 0.03}, LONG, "claude-sonnet-4-5", 0, r"fit: 0.0000 USD .* its input alone costs about 0\.0"),
        ({"max_tokens": 9_000}, LONG, "claude-sonnet-4-5", 0, "and its input alone has about 1"),
        ({"max_cost_usd": 0.094}, "hi", "claude-sonnet-4-5", 2, "fit: 0.0900 USD of 0.094 are spent"),
        ({"max_tokens": 20_000}, "hi", "m", 1, "fit: 11000 of 20000 tokens are used"),
        ({"max_tokens": 10_000}, "hi", "m", 1, "the budget is used up: 11000 of 10000 tokens are used"),
        ({"max_cost_usd": 9.0, "max_tokens": 900_000}, LONG, "claude-sonnet-4-5", 3, ""),
    ],
)
async def test_a_call_that_does_not_fit_is_not_made_and_its_reply_is_as_long_as_what_is_left_allows(
    limits: dict[str, float], prompt: str, model: str, asked: int, why: str, tmp_path: Path
) -> None:
    script = calls("glob", {"pattern": "*"}, usage=CALL) * 2 + says("done", usage=CALL)
    async with ModelServer(parse(script)) as server:
        env = {"TREADLE_BASE_URL": f"{server.url}/v1", "TREADLE_API_KEY": "k"}
        spec = SessionSpec.of(cwd=str(tmp_path), model=f"anthropic:{model}", env=env, limits=Limits(**limits))
        session = await NativeAgent(env).open(spec)
        events = await turn(session, prompt)
        await session.close()
    error, lowered = events[-1].error, [event for event in of(events, Warned) if event.code == "budget"]
    assert (len(server.asked), events[-1].outcome) == (asked, "limited" if why else "completed")
    assert (error is not None and re.search(why, error.message) is not None) == bool(why), error
    assert [one.body["max_tokens"] < 32_000 for one in server.asked[-1:]] == ([bool(lowered)] if asked else [])
    assert bool(lowered) == bool(why and asked)


def step(arguments: str, name: str = "bash") -> list[ToolCall]:
    return [ToolCall(id="c", name=name, arguments=arguments)]


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(2, 4))
def test_a_loop_is_reported_exactly_when_the_last_steps_repeat(steps: list[int], threshold: int) -> None:
    def looping(seen: list[int]) -> bool:
        return any(
            len(seen) >= length * threshold and seen[-length * threshold :] == seen[-length:] * threshold
            for length in range(1, 5)
        )

    repeats, seen = Repeats(threshold, strict=True), []
    for number in steps:
        seen.append(number)
        if looping(seen):
            with pytest.raises(LoopDetected):
                repeats.note(step(str(number)))
            return
        repeats.note(step(str(number)))
