"""What a program in an order's terminal asks is a question of the order, answered from anywhere or in the terminal."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fleet.conftest import Start, give, until_state
from tests.fleet.repositories import work
from tests.fleet.run.terminal.test_forwarding import carried, type_in
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run.terminals import TerminalQuestions, keys
from treadle.session import Answer
from treadle.wire.fleet.records import AgentQuestion

ASKS = (
    "report() { printf '\\033]7501;state=%s\\007' \"$1\"; }; "
    "report 'blocked:app=x:kind=permission:msg=run the tests?'; read -r said; "
    'report working:app=x; echo "said [$said]" > said.txt; exit'
)


@pytest.mark.parametrize(
    ("kind", "answer", "typed"),
    [
        ("permission", Answer(decision="allow"), b"\r"),
        ("permission", Answer(decision="allow", text="2"), b"2"),
        ("permission", Answer(decision="allow", text="fine with me"), b"\r"),
        ("permission", Answer(decision="deny", text="no"), b"\x1b"),
        ("question", Answer(decision="allow", text="call it\nshop"), b"call it shop\r"),
        ("question", Answer(decision="allow", text="no one answered in time", by="deadline"), b"\r"),
    ],
)
def test_an_answer_is_typed_as_it_was_said_that_it_would_be(kind: str, answer: Answer, typed: bytes) -> None:
    assert keys(kind, answer) == typed


@pytest.mark.slow
async def test_an_order_whose_program_asks_is_asking_and_is_answered_from_anywhere_or_in_the_terminal(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    far, near = (
        msgspec.structs.replace(work(repository, "any"), agent="acp:sh", terminal=True, task=ASKS) for _ in range(2)
    )
    await give(bus, far, near)
    for order in (far, near):
        await until_state(bus, order.id, "asking")
    asks = {ask.order: ask for ask in await client.approvals(bus)}
    assert asks[far.id].words == "run the tests?" and "allow is Enter" in asks[far.id].why
    await client.answer(bus, far.id, "allow", by="ana")
    async with carried(bus, near.id, "agent", tmp_path / "s"):
        await asyncio.to_thread(type_in, tmp_path / "s", "by hand\n")
        ended = [await client.wait(bus, order.id, 90) for order in (far, near)]
    assert [order.state for order in ended] == ["done", "done"], ended
    assert all(order.result["changed"] == ["said.txt"] for order in ended)
    receipts = [await client.get_receipt(bus, order.id) for order in (far, near)]
    given = [[(one["decision"], one["by"]) for one in receipt.approvals] for receipt in receipts if receipt]
    assert given == [[("allow", "ana")], []]


class Settling:
    """What takes the questions of a terminal, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[AgentQuestion] = []
        self.ended = 0
        self.answer = asyncio.Event()

    async def settle(self, question: AgentQuestion) -> Answer:
        self.asked.append(question)
        try:
            await self.answer.wait()
        except asyncio.CancelledError:
            self.ended += 1
            raise
        return Answer(decision="allow")


async def test_a_program_asks_one_thing_at_a_time_and_what_it_asks_no_more_is_over(tmp_path: Path) -> None:
    people: Any = Settling()
    asking = TerminalQuestions(people, str(tmp_path / "no terminal"))
    await asking.look({})
    await asking.look({"state": {"waiting_for": "permission", "settling": True}})
    for _ in range(2):
        await asking.look({"state": {"waiting_for": "permission", "message": "run it?"}})
    async with asyncio.timeout(60):
        while not people.asked:
            await asyncio.sleep(0.01)
    (first,) = people.asked
    assert (first.request, first.kind, first.headline, first.tool) == (
        "terminal 1",
        "permission",
        "run it?",
        "terminal",
    )
    assert first.text == "" and first.why.startswith("allow is Enter, which takes what is marked, or the key")
    await asking.look({"state": {}})
    assert people.ended == 1
    people.answer.set()
    await asking.look({"state": {"waiting_for": "question"}})
    async with asyncio.timeout(60):
        while asking._task is not None:
            await asyncio.sleep(0.01)
    second = people.asked[1]
    assert (second.request, second.headline) == ("terminal 2", "the program in its terminal asks")
    await asking.look({"state": {"waiting_for": "question"}})
    assert asking._task is None, "it has a moment to leave its dialog"
    await asking.look({})
    await asking.look({"state": {"waiting_for": "other"}})
    async with asyncio.timeout(60):
        while len(people.asked) < 3:
            await asyncio.sleep(0.01)
    assert people.asked[2].why == ""
    await asking.close()
