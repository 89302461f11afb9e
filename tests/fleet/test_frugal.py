"""What orders leave for each other."""

from pathlib import Path

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import model, read, says, work, write
from treadle.coordination.capsules import Capsules
from treadle.coordination.ledger import Ledger
from treadle.coordination.planning import Planning
from treadle.coordination.table import Symbols
from treadle.fleet import client, frugal
from treadle.fleet.engine.bus import Bus


async def test_an_order_is_told_what_those_before_it_left_and_leaves_the_same(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    planning = Planning(project=str(repository))
    Symbols(planning).set("RATE", "7")
    await start_node()
    told = "(?s)What this builds on.*I chose two.*RATE = 7"
    scripted = model(
        tmp_path,
        says("I know.", read("b.txt"), write("b.txt", "two"), when=told, turn=1),
        says("I write.", read("a.txt"), write("a.txt", "two"), turn=1),
        says("I chose two.", times="always"),
    )
    first = work(repository, scripted)
    second = work(repository, scripted, after=(first.id,), symbols=("RATE",))
    await give(bus, first, second)
    ended = await client.wait(bus, second.id, 90)
    assert ended.state == "done" and ended.result["changed"] == ["b.txt"], ended
    left = (await client.get_order(bus, first.id)).result["capsule"]
    assert left["where"] == "a.txt" and left["decision"] == "I chose two."


def test_records_are_left_in_a_repository_that_keeps_them(repository: Path) -> None:
    from treadle.wire.fleet.orders import Spec
    from treadle.wire.fleet.records import Used

    spec = Spec(id="one", task="x", agent="native")
    parts = frugal.capsule(spec, "Mend it", {"changed": [f"f{n}" for n in range(10)], "says": "done\nwell"})
    assert parts["where"].endswith("f7 and 2 more") and parts["decision"] == "done well"
    frugal.leave(spec, str(repository), parts, Used(input_tokens=12))
    planning = Planning(project=str(repository))
    assert not Path(planning.root).exists()
    Path(planning.root).mkdir()
    frugal.leave(spec, str(repository), parts, Used(input_tokens=12))
    assert Ledger(planning).report().total == 12
    assert "WHAT: Mend it" in Capsules(planning).show("one")
