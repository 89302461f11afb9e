"""Commands that look: status, cost, context, tools, skills."""

from tests.agent.commands.conftest import ran
from tests.agent.conftest import Opened
from treadle.sessions.totals import run_turn


async def test_status_says_where_the_session_stands(opened: Opened) -> None:
    session = await opened()
    async for _ in run_turn(session, "go"):
        pass
    shown = await ran(session, "status")
    assert session.id in shown and "suggest" in shown and "scripted" in shown and "$0.2500" in shown
    assert "turns      1\n" in shown and "sealed     no: what it starts is not confined" in shown


async def test_an_unknown_price_is_not_a_zero(opened: Opened) -> None:
    session = await opened('[[reply]]\ntext = "done"\n')
    async for _ in run_turn(session, "go"):
        pass
    shown = await ran(session, "cost")
    assert "unknown" in shown and "$" not in shown and "estimate" in shown
