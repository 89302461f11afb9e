"""The index for a command: up to date when it is asked, also when a server feeds the same file."""

from tests.fleet.conftest import give, spec
from tests.serve.live.test_socket import write
from treadle.fleet.engine.bus import Bus
from treadle.fleet.find import searching


async def test_what_was_just_said_is_found_and_counted_once(bus: Bus) -> None:
    order = spec(title="weave a cloth")
    await give(bus, order)
    await write(bus, order.id, 1, 1, text="the shuttle is stuck")
    for _ in range(2):
        async with searching.up_to_date(bus) as index:
            hits, total = index.search("shuttle")
            assert total == 1 and hits[0].order == order.id and hits[0].kind == "turn"
            assert index.search("cloth")[0][0].kind == "task"
    await write(bus, order.id, 2, 1, text="another shuttle")
    async with searching.up_to_date(bus) as first, searching.up_to_date(bus) as second:
        assert first.search("shuttle")[1] == second.search("shuttle")[1] == 2
