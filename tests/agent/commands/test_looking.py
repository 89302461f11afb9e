"""Commands that look: status, cost, context, tools, skills."""

from tests.agent.commands.conftest import ran
from tests.agent.conftest import SAY, Opened
from treadle.sessions.served import run_turn


async def test_status_says_where_the_session_stands(opened: Opened) -> None:
    session = await opened()
    async for _ in run_turn(session, "go"):
        pass
    shown = await ran(session, "status")
    assert session.id in shown and "suggest" in shown and "scripted" in shown and "$0.2500" in shown
    assert "turns      1\n" in shown and "sealed     no: what it starts is not confined" in shown


async def test_cost_is_what_was_spent_by_kind_of_token(opened: Opened) -> None:
    session = await opened(SAY + SAY)
    assert "nothing yet" in await ran(session, "cost")
    for _ in range(2):
        async for _ in run_turn(session, "go"):
            pass
    shown = await ran(session, "cost")
    assert "$0.5000" in shown and "input tokens        14" in shown and "output tokens       6" in shown
    assert "estimate" not in shown and "model calls         2" in shown


async def test_an_unknown_price_is_not_a_zero(opened: Opened) -> None:
    session = await opened('[[reply]]\ntext = "done"\n')
    async for _ in run_turn(session, "go"):
        pass
    shown = await ran(session, "cost")
    assert "unknown" in shown and "$" not in shown and "estimate" in shown


async def test_context_says_how_full_it_is_and_with_what(opened: Opened) -> None:
    session = await opened("context_window = 1000\n" + SAY)
    async for _ in run_turn(session, "x" * 400):
        pass
    shown = await ran(session, "context")
    assert "of 1,000 tokens (1%)" in shown and "by you         about 104 tokens" in shown
