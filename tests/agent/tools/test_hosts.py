"""A command's questions about hosts."""

import asyncio

import pytest

from treadle.agent.tools.base import HostQuestions, host_granted, host_question


async def test_a_host_is_asked_about_once_however_often_it_is_tried() -> None:
    asked: list[str] = []

    async def ask(host: str, port: int) -> bool:
        asked.append(f"{host}:{port}")
        return port == 443

    questions = HostQuestions(ask)
    tried = [("A.example", 443), ("a.example", 443), ("a.example", 81), ("a.example", 81)]
    assert await asyncio.gather(*(questions.reach(*one) for one in tried)) == [True, True, False, False]
    assert asked == ["a.example:443", "a.example:81"] and questions.refused == ["a.example:81"]


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


def test_the_question_and_what_follows_name_the_host_as_a_person_writes_it() -> None:
    asked = host_question("a command", "a.example", 8080, call="c1", deadline=5.0)
    assert asked.text == "a command wants to reach a.example:8080, which is not among the hosts that may be reached"
    assert (asked.kind, asked.name, asked.tool_kind) == ("permission", "network", "network")
    assert (asked.call, asked.deadline, asked.args) == ("c1", 5.0, {"host": "a.example", "port": 8080})
    granted = host_granted("a.example", 443).message
    assert granted.startswith("a.example can be reached for the rest of this session. For good: add it to network")


async def test_one_refused_at_two_ports_of_the_web_is_named_once() -> None:
    async def ask(host: str, port: int) -> bool:
        return False

    questions = HostQuestions(ask)
    for port in (80, 443, 81):
        assert not await questions.reach("a.example", port)
    assert questions.refused == ["a.example", "a.example:81"]
