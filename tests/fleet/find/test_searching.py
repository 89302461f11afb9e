"""The index for a command: up to date when it is asked, also when a server feeds the same file."""

from types import SimpleNamespace

from tests.fleet.conftest import give, spec
from tests.serve.live.test_socket import write
from treadle.fleet.engine.bus import Bus
from treadle.fleet.find.index import streams_of, up_to_date, value_of
from treadle.fleet.orders import encode
from treadle.wire.fleet.records import Order


async def test_what_was_just_said_is_found_and_counted_once(bus: Bus) -> None:
    order = spec(title="weave a cloth")
    await give(bus, order)
    await write(bus, order.id, 1, 1, text="the shuttle is stuck")
    for _ in range(2):
        async with up_to_date(bus) as index:
            hits, total = index.search("shuttle")
            assert total == 1 and hits[0].order == order.id and hits[0].kind == "turn"
            assert index.search("cloth")[0][0].kind == "task"
    await write(bus, order.id, 2, 1, text="another shuttle")
    async with up_to_date(bus) as first, up_to_date(bus) as second:
        assert first.search("shuttle")[1] == second.search("shuttle")[1] == 2


async def test_what_comes_in_many_pieces_is_all_found_and_what_is_removed_is_gone(bus: Bus) -> None:
    names = await give(bus, *(spec(title=f"cloth {number}") for number in range(3)))
    await bus.put(f"order.{names[0]}", encode(Order(id=names[0], state="done", changed=1.0, title="cloth 0")))
    async with up_to_date(bus) as index:
        assert index.search("cloth")[1] == 3
        state, events = index.state_at, index.events_at
        assert state == await bus.last_revision() + 1 and events == 1
    async with up_to_date(bus) as index:
        assert (index.state_at, index.events_at) == (state, events), "nothing is new"
    await bus.purge(f"spec.{names[0]}")
    await bus.purge(f"order.{names[0]}")
    async with up_to_date(bus) as index:
        assert {hit.order for hit in index.search("cloth")[0]} == set(names[1:])
    first, second = (await streams_of(bus)).split()
    assert first and second and await streams_of(bus) == f"{first} {second}"


def test_a_value_is_what_the_message_holds_unless_its_key_was_removed() -> None:
    for headers, value in ((None, b"x"), ({"Nats-Msg-Id": "1"}, b"x"), ({"KV-Operation": "PURGE"}, b"")):
        assert value_of(SimpleNamespace(headers=headers, data=b"x")) == value
