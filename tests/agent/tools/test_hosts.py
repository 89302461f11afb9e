"""A command's questions about hosts."""

import asyncio

import pytest

from treadle.agent.tools.base import HostQuestions


async def test_with_nobody_to_ask_none_is_reached_and_each_is_named() -> None:
    questions = HostQuestions(None)
    assert not await questions.reach("a.example", 443) and not await questions.reach("a.example", 80)
    assert questions.refused == ["a.example"]


async def test_a_question_outlives_the_connection_and_ends_with_the_command() -> None:
    begun, withdrawn = asyncio.Event(), asyncio.Event()

    async def ask(host: str, port: int) -> bool:
        begun.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            withdrawn.set()

    questions = HostQuestions(ask)
    connection = asyncio.create_task(questions.reach("a.example", 443))
    await begun.wait()
    connection.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connection
    assert not withdrawn.is_set()
    questions.close()
    async with asyncio.timeout(60):
        await withdrawn.wait()
