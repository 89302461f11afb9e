"""What a program in an order's terminal asks is a question of the order, answered from anywhere or in the terminal."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.fleet.conftest import Start, give, until_state
from tests.fleet.repositories import work
from tests.fleet.run.terminal.test_forwarding import carried, type_in
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run.terminal.questions import keys
from treadle.session import Answer

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
