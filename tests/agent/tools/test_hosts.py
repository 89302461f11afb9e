"""A command's questions about hosts."""

from treadle.agent.tools.base import HostQuestions


async def test_with_nobody_to_ask_none_is_reached_and_each_is_named() -> None:
    questions = HostQuestions(None)
    assert not await questions.reach("a.example", 443) and not await questions.reach("a.example", 80)
    assert questions.refused == ["a.example"]
