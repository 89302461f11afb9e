"""What orders leave for each other."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import model, read, says, work, write
from treadle.coordination.capsules import Capsules
from treadle.coordination.ledger import Ledger, Symbols
from treadle.coordination.planning import Planning
from treadle.errors import NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.fleet.run import execute
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order, Used

pytestmark = pytest.mark.slow


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


def order(name: str, left: object) -> Order:
    return Order(id=name, state="done", changed=1.0, result={"capsule": left} if left else {})


async def put(bus: Bus, name: str, left: object, *after: str) -> None:
    await bus.put(f"spec.{name}", encode(Spec(id=name, task="t", after=after)))
    await bus.put(f"order.{name}", encode(order(name, left)))


async def test_a_brief_has_what_it_builds_on_once_and_oldest_first_and_the_symbols_it_names(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(bus, "a", {"what": "First", "where": "a.py", "decision": "I chose."})
    await put(bus, "b", {"what": "Second", "where": "", "decision": ""}, "a")
    await put(bus, "c", None, "a")
    await put(bus, "odd", "no table")
    Symbols(Planning(project=str(tmp_path))).set("RATE", "7")
    spec = Spec(id="z", task="t", after=("b", "c", "odd", "gone"), symbols=("RATE",))
    shown = "- a: First\n  where: a.py\n  decision: I chose.\n- b: Second"
    built = f"What this builds on, oldest first:\n{shown}"
    assert await execute.brief(bus, spec, str(tmp_path)) == f"{built}\n\nSymbols:\nRATE = 7"
    assert await execute.brief(bus, replace(spec, symbols=()), str(tmp_path)) == built
    assert await execute.brief(bus, replace(spec, after=()), str(tmp_path)) == "Symbols:\nRATE = 7"
    assert await execute.brief(bus, replace(spec, after=("odd",), symbols=()), str(tmp_path)) == ""
    with pytest.raises(NotFound, match=f"there is no symbol 'NONE' in {tmp_path}") as refused:
        await execute.brief(bus, replace(spec, symbols=("RATE", "NONE")), str(tmp_path))
    assert refused.value.hint == "`heimdall-resolve` lists them"
    monkeypatch.setattr(execute, "FOLLOWED", 1)
    cut = await execute.brief(bus, replace(spec, symbols=()), "")
    assert "- b: Second" in cut and "First" not in cut


def test_a_capsule_names_eight_places_and_cuts_what_was_said() -> None:
    spec = Spec(id="one", task="x", after=("a", "b"))
    eight = execute.capsule(spec, "T", {"changed": [f"f{n}" for n in range(8)]})
    assert eight == {"what": "T", "where": "f0, f1, f2, f3, f4, f5, f6, f7", "decision": "", "depends": "a,b"}
    assert execute.capsule(spec, "T", {"says": "x" * 500})["decision"] == "x" * 400


def test_records_are_left_in_a_repository_that_keeps_them(repository: Path) -> None:
    spec = Spec(id="one", task="x", agent="native", after=("known", "unknown"))
    parts = execute.capsule(spec, "Mend it", {"changed": [f"f{n}" for n in range(10)], "says": "done\nwell"})
    assert parts["where"].endswith("f7 and 2 more") and parts["decision"] == "done well"
    execute.leave(spec, str(repository), parts, Used(input_tokens=12))
    planning = Planning(project=str(repository))
    assert not Path(planning.root).exists()
    Path(planning.root).mkdir()
    execute.leave(replace(spec, id="known", after=()), str(repository), {**parts, "depends": ""}, Used(input_tokens=1))
    execute.leave(spec, str(repository), parts, Used(input_tokens=12))
    for answer in ("plan", "review", "judgement"):
        execute.leave(replace(spec, id=answer, answer=answer), str(repository), parts, Used(input_tokens=100))
    assert Ledger(planning).report().total == 313 and "WHAT: Mend it" in Capsules(planning).show("one")
    assert "known" in Capsules(planning).show("one") and "unknown" not in Capsules(planning).show("one")
    assert set(Capsules(planning).ids()) == {"known", "one"}, "an answer is a message, not work that others build on"
    written = "".join(path.read_text() for path in Path(planning.root).rglob("*") if path.is_file())
    assert all(role in written for role in ("goal/planner", "goal/reviewer", "goal/judge", "fleet/native"))
    execute.leave(replace(spec, id="no/id"), str(repository), parts, Used())  # it never fails
