"""The board: who needs a person, and what works."""

from tests.fleet.conftest import Start, give, spec
from tests.serve.conftest import Follow, Web
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus


async def test_the_board_shows_who_needs_a_person_and_what_works(
    web: Web, bus: Bus, start_node: Start, follow: Follow
) -> None:
    await start_node(slots=1)
    tab = await follow(web)
    await tab.sub("board")
    first = await tab.until(lambda message: message["t"] == "board")
    assert first["full"]
    (name,) = await give(bus, spec("null:60:600"))
    (waits,) = await give(bus, spec())
    board = await tab.until(lambda message: name in message.get("sections", {}).get("working", ()))
    assert not board["full"] and name in board["rows"]
    told = await tab.until(lambda message: (message.get("rows") or {}).get(waits, {}).get("waits") == "slot")
    assert "slots of n1 are taken" in told["rows"][waits]["now"]
    await client.cancel(bus, name)
    ended = await tab.until(lambda message: (message.get("rows") or {}).get(name, {}).get("state") == "cancelled")
    assert name in ended["sections"]["done"]
