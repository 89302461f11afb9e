"""What is seen of a goal's orders."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.repositories import git
from treadle.errors import RemoteProtocolError
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import PERSON, TRAIN, encode
from treadle.goals import commands, store
from treadle.goals.deciding import GoalSeen, Happened, OrderSeen, moves
from treadle.goals.observation import answer_of, last_words, look, open_orders
from treadle.landing import train
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import OrderLimits, Spec
from treadle.wire.fleet.records import Attempt, Budget, Control, Order, Used
from treadle.wire.fleet.train import LandedRecord, LeftOut, QueuedChange, ReturnedChange, TrainRecord
from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder
from treadle.wire.goal.records import AnyGoalEvent, GoalRecord, GoalStep, StepBoarded, StepEnded, StepPlaced
from treadle.wire.goal.verdicts import AddedTest, ReviewVerdict


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
    await bus.put(keys.LANDED(first, line), encode(proof))
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


ONE = PlannedOrder(id="one", task="t", accept=("sh check.sh", "pytest tests/x"), claims=("tests/mine.py",))
PLAN = GoalPlan(goal="g", order=(ONE,), gates=("none",))
DONE = Order(id="o1", state="done", changed=1.0, used=Used(input_tokens=3), result={"commit": "c1"})


async def seen(
    bus: Bus,
    repository: Path,
    step: GoalStep,
    *orders: Order,
    plan: GoalPlan = PLAN,
    agent: str = "null",
    sure: bool = False,
    **fields: object,
) -> GoalSeen:
    for order in orders:
        await bus.put(f"spec.{order.id}", encode(Spec(id=order.id, task="t", agent=agent)))
        await bus.put(f"order.{order.id}", encode(order))
    made = GoalRecord(**{"id": "g", "root": str(repository), "branch": "main", "steps": {"one": step}, **fields})  # type: ignore[arg-type]
    return await look(bus, made, plan, sure=sure)


def at(state: str, **fields: object) -> GoalStep:
    return GoalStep(**{"state": state, "orders": ("o0", "o1"), **fields})  # type: ignore[arg-type]


async def test_an_order_is_seen_as_far_as_it_is_stored(bus: Bus, repository: Path) -> None:
    assert (await seen(bus, repository, at("working"))).orders == {"o1": OrderSeen(stored=False)}
    await bus.put("spec.o1", encode(Spec(id="o1", task="t")))
    found = await seen(bus, repository, at("working"))
    assert found.orders == {"o1": OrderSeen()} and found.tip == "" and found.now > 1e9
    lacks = Attempt(number=2, node="n", placed=1.0, outcome="not_here")
    lost = replace(lacks, number=1, outcome="lost")
    cases: list[tuple[Order, dict[str, object]]] = [
        (replace(DONE, state="running", result={}), {"why": "running"}),
        (replace(DONE, state="failed", why="it broke", result={}), {"ended": True, "why": "it broke"}),
        (replace(DONE, state="cancelled", result={}), {"ended": True, "cancelled": True, "why": "cancelled"}),
        (replace(DONE, state="failed", why="w", attempts=(lost, lacks), result={}), {"ended": True, "unable": True}),
        (replace(DONE, state="failed", why="w", attempts=(lacks, lost), result={}), {"ended": True, "unable": False}),
        (DONE, {"ended": True, "ok": True, "changed": True, "commit": "c1", "why": "done"}),
        (replace(DONE, retried_as="o2", result={}), {"ended": True, "ok": True, "retried_as": "o2"}),
        (replace(DONE, result={"decision": "allow", "by": "ana", "says": "x"}), {"allow": False, "by": "", "says": ""}),
    ]
    for order, expected in cases:
        (order_seen,) = (await seen(bus, repository, at("working"), order)).orders.values()
        plain = OrderSeen(used=DONE.used, ended=order.ended, ok=order.state == "done", why=order.why or order.state)
        assert order_seen == replace(plain, **expected), order
    asked = replace(DONE, id="q1", result={"decision": "allow", "by": "ana", "says": "go"})
    for decision in ("allow", "deny"):
        asked = replace(asked, result={**asked.result, "decision": decision})
        found = await seen(bus, repository, GoalStep(), asked, agent=PERSON, questions={"plan": "q1"})
        order_seen = found.orders["q1"]
        assert (order_seen.allow, order_seen.by, order_seen.says) == (decision == "allow", "ana", "go")


def test_the_orders_that_are_looked_at_are_those_that_may_be_open() -> None:
    steps = {
        "a": at("working"),
        "b": at("landed"),
        "c": GoalStep(),
        "d": at("reviewing", orders=("d1",), review="r1"),
    }
    record = GoalRecord(id="g", steps=steps, questions={"plan": "q1"}, judge="j1", void=("v1",))
    assert open_orders(record) == ["o1", "d1", "r1", "q1", "j1", "v1"]
    assert open_orders(GoalRecord(id="g", steps=steps)) == ["o1", "d1", "r1"]


async def test_what_the_train_says_of_an_order_is_seen(bus: Bus, repository: Path) -> None:
    line = train.name_of(str(repository / ".git"), "main")
    record = TrainRecord(repository=str(repository), branch="main")
    out = LeftOut(order="o1", kind="red", why="1 failed", at=1.0, output="\n".join(map(str, range(30))))
    change, sent = QueuedChange(order="o1", commit="c1"), {"commit": "c1", "why": "x", "at": 1.0}
    back = ReturnedChange(order="o1", first="o9", kind="red", **sent)  # type: ignore[arg-type]
    retried = replace(DONE, retried_as="o2")
    await _order(bus, Spec(id="o2", task="t"), 9)
    tail = "1 failed\n" + "\n".join(map(str, range(10, 30)))
    cases: list[tuple[TrainRecord, dict[str, object]]] = [
        (record, {"retried_as": "o2"}),
        (replace(record, left_out=(out,)), {"left_out": tail, "given_up": True, "retried_as": "o2"}),
        (
            replace(record, left_out=(out, replace(out, kind="refused", why="no", output=""))),
            {"left_out": "no", "retried_as": "o2"},
        ),
        (
            replace(record, left_out=(replace(out, kind="conflict", output=""),)),
            {"left_out": "1 failed", "given_up": True},
        ),
        (replace(record, left_out=(replace(out, order="o8"),)), {"retried_as": "o2"}),
        (replace(record, left_out=(replace(out, kind="there"),)), {"landed": "c1"}),
        (replace(record, left_out=(out,), queue=(change,)), {"rides": True}),
        (replace(record, queue=(replace(change, order="o7", first="o1"),)), {"rides": True}),
        (replace(record, back=(back,)), {"rides": True}),
        (replace(record, back=(replace(back, order="o7", first="o1"),)), {"rides": True}),
        (replace(record, back=(replace(back, to="author", by="a1"),)), {"rides": True}),
        (replace(record, back=(replace(back, to="person", by="q1"),)), {"rides": True, "asks": "q1"}),
        (replace(record, queue=(replace(change, order="o7"),)), {"retried_as": "o2"}),
    ]
    for stored, expected in cases:
        await bus.put(f"train.{line}", encode(stored))
        found = (await seen(bus, repository, at("landing"), retried)).orders["o1"]
        told = {
            name: getattr(found, name) for name in ("rides", "asks", "landed", "left_out", "given_up", "retried_as")
        }
        plain = {"rides": False, "asks": "", "landed": "", "left_out": "", "given_up": False, "retried_as": ""}
        assert told == {**plain, **({"retried_as": "o2"} if not expected.get("rides") else {}), **expected}, stored
    for sure in (False, True):
        proof = LandedRecord(order="o1", train=line, branch="main", commit="c7", tree="t", seq=1, at=1.0)
        await bus.put(keys.LANDED("o1", line), encode(proof))
        assert (await seen(bus, repository, at("landing"), DONE, sure=sure)).orders["o1"].landed == "c7"
    assert (await seen(bus, repository, at("working"), DONE)).orders["o1"].landed == "", "only what lands has a proof"


async def test_the_budget_that_holds_keeps_what_does_not_fit(bus: Bus, repository: Path) -> None:
    plan = replace(PLAN, budget=GoalBudget(tokens=100, usd=2.0))
    queued = replace(DONE, state="queued", result={}, title="First", limits=OrderLimits(tokens=60))

    async def short(spent: Budget, *, order: Order = queued, agent: str = "null", raised: int = 0) -> tuple[str, bool]:
        await bus.put("control", encode(Control(budgets={"project:g": spent})))
        found = await seen(bus, repository, at("working"), order, plan=plan, agent=agent, raised=raised)
        assert (found.spent_tokens, found.spent_usd) == (spent.spent_tokens, spent.spent_usd)
        return found.orders["o1"].short, found.budget_known

    full = Budget(tokens=100, usd=2.0, spent_tokens=50, spent_usd=0.5)
    why = "First waits: 50 tokens spent and 0 reserved of 100"
    assert await short(full) == (why, True) and await short(full, raised=1) == ("", False)
    assert await short(full, order=replace(queued, title="")) == (why.replace("First", "o1"), True)
    assert await short(replace(full, spent_tokens=37)) == ("", True) and await short(full, agent=PERSON) == ("", True)
    assert await short(replace(full, tokens=99)) == (why, False)
    running = replace(queued, state="running")
    spent = replace(full, spent_tokens=101)
    assert await short(spent, order=running) == ("101 of 100 tokens are used", True)
    assert await short(full, order=running) == await short(spent, order=replace(queued, state="failed")) == ("", True)
    done, entry = (
        replace(queued, state="done"),
        ReturnedChange(order="o1", first="o1", kind="red", commit="c", why="x", at=1.0),
    )
    line = train.name_of(str(repository / ".git"), "main")
    await bus.put("spec.h1", encode(Spec(id="h1", task="t", by=TRAIN)))
    await bus.put("order.h1", encode(Order(id="h1", state="running", changed=1.0)))
    for to, held in (("author", "101 of 100 tokens are used"), ("person", "")):
        back = (replace(entry, by="h1", to=to),)
        await bus.put(f"train.{line}", encode(TrainRecord(repository=str(repository), branch="main", back=back)))
        assert await short(spent, order=done) == (held, True), "who helps it stands still, so it is asked"
    plan = PLAN
    assert await short(spent) == ("", True), "a goal without a budget is short of nothing"


async def test_a_person_hears_of_changed_files_that_the_work_is_accepted_by(bus: Bus, repository: Path) -> None:
    (repository / "tests").mkdir()
    for name in ("check.sh", "tests/x", "tests/mine.py", "tests/test_other.py", "plain.py", ".npmrc"):
        (repository / name).write_text("assert 1\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "files")
    head = git(repository, "rev-parse", "HEAD")
    names = [
        "check.sh",
        "tests/x",
        "tests/mine.py",
        "tests/test_other.py",
        "plain.py",
        ".npmrc",
        "tests/new.py",
    ]
    order = replace(DONE, result={"commit": head, "changed": names})
    for state in ("done", "approved", "working"):
        found = (await seen(bus, repository, at(state), order)).orders["o1"]
        assert found.touched == (() if state == "working" else ("check.sh", "tests/x", "tests/test_other.py", ".npmrc"))
    agreed = at("done", judge=("check.sh", "tests/x", ".npmrc"))
    assert (await seen(bus, repository, agreed, order)).orders["o1"].touched == ("tests/test_other.py", ".npmrc")
    added = (
        AddedTest(path="plain.py", text="\nassert 1"),
        AddedTest(path="check.sh", text="assert 2"),
        AddedTest(path="gone.py", text="assert 1"),
    )
    plain = replace(order, result={"commit": head, "changed": ["plain.py"]})
    assert (await seen(bus, repository, at("done", tests=added), plain)).orders["o1"].touched == ("check.sh", "gone.py")
    over = await seen(bus, repository, at("landed"), order)
    assert over.tip == head and over.orders == {}


async def test_an_answer_is_what_the_tool_took_or_what_the_agent_said_last(bus: Bus) -> None:
    def message(text: str, **fields: object) -> dict[str, object]:
        return {"type": "message", "text": text, **fields}

    events = [
        message("First."),
        message('{"verdict": "approve"}', kind="text"),
        message("thought", kind="thinking"),
        message("a helper's", parent="p"),
        {"type": "usage"},
    ]
    await bus.put("order.o1", encode(replace(DONE, result={"says": "cut"})))
    assert await last_words(bus, "o1") == "cut"
    await bus.publish("fleet.ev.o1.1.n1", encode({"n": 1, "events": events}))
    assert await last_words(bus, "o1") == '{"verdict": "approve"}'
    assert (await answer_of(bus, "o1", ReviewVerdict)).verdict == "approve"
    given = {"verdict": "changes", "comments": [{"text": "x"}]}
    await bus.put("order.o1", encode(replace(DONE, result={"answer": given})))
    assert (await answer_of(bus, "o1", ReviewVerdict)).verdict == "changes"
    await bus.put("order.o2", encode(replace(DONE, id="o2", result={})))
    assert await last_words(bus, "o2") == ""
    with pytest.raises(RemoteProtocolError):
        await answer_of(bus, "o2", ReviewVerdict)
