"""Orders given several times: who won is read off what they left."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fleet.conftest import Start, give, spec
from tests.fleet.repositories import DONE, git, model, other_agents, says, write
from treadle.errors import NotFound
from treadle.events import Message, TurnStarted
from treadle.fleet import client, results
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.redact import Redactor
from treadle.sessions.handover import gathered
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order, Used


def row(state: str = "done", verified: bool | None = True, files: int = 1, usd: float | None = 1.0) -> dict[str, Any]:
    return {"state": state, "verified": verified, "files": files, "usd": usd}


def test_done_and_verified_comes_before_small_and_cheap() -> None:
    best = [
        row(),
        row(usd=2.0),
        row(usd=None),
        row(files=3),
        row(files=0),
        row(verified=False),
        row(state="failed"),
    ]
    assert sorted(reversed(best), key=results._place) == best


async def test_a_race_is_found_by_any_of_its_orders_and_its_best_is_first(bus: Bus) -> None:
    used = Used(input_tokens=7, usd=0.5)
    result = {"verified": True, "files": 2, "stat": "+1"}
    rows = (("a", "r", "failed", {}), ("b", "r", "done", result), ("c", "other", "done", {}), ("d", "", "done", {}))
    for name, race, state, left in rows:
        await bus.put(f"spec.{name}", encode(Spec(id=name, task="t", agent="codex", race=race)))
        agent = "pi" if name == "b" else ""  # a fallback went on with it
        order = Order(id=name, state=state, changed=1.0, agent=agent, used=used, result=left)  # type: ignore[arg-type]
        await bus.put(f"order.{name}", encode(order))
    first, second = await results.standings(bus, "a")
    assert first == {
        **{"order": "b", "agent": "pi", "state": "done", "verified": True},
        **{"files": 2, "stat": "+1", "tokens": 7, "usd": 0.5},
    }
    assert (second["order"], second["verified"], second["files"], second["stat"]) == ("a", None, 0, "")
    assert [each["order"] for each in await results.standings(bus, "c")] == ["c"]
    with pytest.raises(NotFound, match="the order d is in no race") as refused:
        await results.standings(bus, "d")
    assert refused.value.hint == "submit with --race A,B or --best-of N"


@pytest.mark.slow
async def test_several_agents_go_on_from_one_point_and_the_evidence_decides(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    told = "(?s)take over a task from native.*Call it Kestrel.*because of users.*Go on"
    rest = {name: says("I do the rest.", write("rest.txt", name), when=told, turn=1) for name in ("good", "bad")}
    other_agents(**{name: model(tmp_path, reply, DONE, name=name) for name, reply in rest.items()})
    (repository / "half.txt").write_text("half")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "half of it")
    happened = [TurnStarted(prompt="Call it Kestrel."), Message(text="I keep the names because of users.")]
    task = f"{gathered(happened, 'native', Redactor()).prompt()} Go on."
    await start_node(slots=2)
    how = {"root": str(repository), "base": git(repository, "rev-parse", "HEAD"), "mode": "yolo", "race": "r"}
    both = [spec(name, **how, verify="test -s half.txt && grep -q good rest.txt") for name in ("bad", "good")]
    both = [msgspec.structs.replace(each, task=task) for each in both]
    await give(bus, *both)
    ended = [await client.wait(bus, each.id, 90) for each in both]
    assert [(each.state, each.title) for each in ended] == [("failed", "Go on."), ("done", "Go on.")], ended
    assert [each["agent"] for each in await results.standings(bus, both[0].id)] == ["good", "bad"]
