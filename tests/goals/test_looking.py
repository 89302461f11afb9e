"""What is seen of a goal's orders."""

from pathlib import Path

from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.fleet.run.resume.continuing import TRAIN
from treadle.goals import commands, store
from treadle.goals.deciding import Happened, moves
from treadle.goals.looking import look
from treadle.landing import train
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order, Used
from treadle.wire.fleet.train import LandedRecord
from treadle.wire.goal.records import AnyGoalEvent, StepBoarded, StepEnded, StepPlaced


async def test_what_the_trains_helpers_have_used_counts_by_role_and_for_the_step(bus: Bus, repository: Path) -> None:
    head = 'goal = "g"\ndone = "true"\nverify = "true"\ngates = ["none"]\nroles = { judge = "none" }\n'
    name, _ = await commands.begin(
        bus, f'{head}[[order]]\nid = "one"\ntask = "t"\n', str(repository), budget_required=False
    )
    first, author, reconciler = f"{name}-one", "again", "neutral"
    await _order(bus, Spec(id=first, task="t", project=name), 100, retried_as=author)
    await _order(bus, Spec(id=author, task="t", by=TRAIN, retry_of=first, continues=first), 30, retried_as=reconciler)
    await _order(bus, Spec(id=reconciler, task="t", by=TRAIN, retry_of=author), 7)
    line = train.name_of(str(repository / ".git"), "main")
    proof = LandedRecord(order=first, train=line, branch="main", commit="c", tree="t", seq=1, at=1.0, by=reconciler)
    await bus.put(train.proof_key(first, line), encode(proof))
    before: list[AnyGoalEvent] = [
        StepPlaced(at=1, step="one", order=first),
        StepEnded(at=2, step="one", ok=True, used=_used(100)),
        StepBoarded(at=3, step="one"),
    ]
    await store.happen(bus, name, lambda found: before)
    record, _ = await store.load(bus, name)
    plan = await store.get_plan(bus, name, 1)
    happened = [each.event for each in moves(record, plan, await look(bus, record, plan)) if isinstance(each, Happened)]
    await store.happen(bus, name, lambda found: happened)
    record, _ = await store.load(bus, name)
    assert {role: used.tokens for role, used in record.used.items()} == {
        "worker": 100,
        "worker, sent back": 30,
        "reconciler": 7,
    }
    assert record.steps["one"].state == "landed" and record.steps["one"].used.tokens == 137
    assert "| reconciler | 7 |" in (await commands.report(bus, name)).text


async def _order(bus: Bus, spec: Spec, tokens: int, retried_as: str = "") -> None:
    made = Order(
        id=spec.id, state="done", changed=1.0, used=_used(tokens), result={"commit": "c"}, retried_as=retried_as
    )
    await bus.put(f"spec.{spec.id}", encode(spec), expect=0)
    await bus.put(f"order.{spec.id}", encode(made), expect=0)


def _used(tokens: int) -> Used:
    return Used(input_tokens=tokens)
