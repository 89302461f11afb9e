"""A goal as people look at it, from the store alone."""

import time

import pytest

from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.goals import store, views
from treadle.goals.views import GoalAsk, StepView, WaveView
from treadle.wire.fleet.records import AskRecord, Budget, Control, Order, Used
from treadle.wire.goal import records
from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder, read

TOOK = Used(input_tokens=18, output_tokens=2)
PLAN = GoalPlan(
    goal="Export",
    done="make test",
    verify="true",
    gates=("none",),
    budget=GoalBudget(tokens=500),
    roles={"worker": "claude opus"},
    order=(
        PlannedOrder(id="model", task="\n A type.\nMore."),
        PlannedOrder(id="flag", task="t", title="The flag", agent="codex", claims=("a.py",)),
        PlannedOrder(id="writer", task="Write.", after=("model", "flag")),
        PlannedOrder(id="other", task="t", claims=("a.py",), wave=1),
    ),
)
NOW = 100.0
HAPPENED: list[records.AnyGoalEvent] = [
    records.StepPlaced(at=NOW, step="model", order="g-model"),
    records.StepEnded(at=NOW, step="model", ok=True, used=TOOK),
    records.StepBoarded(at=NOW, step="model"),
    records.StepLanded(at=NOW, step="model", commit="c9"),
    records.StepPlaced(at=NOW, step="flag", order="g-flag"),
    records.StepEnded(at=NOW, step="flag", ok=False, why="it broke"),
    records.QuestionPut(at=NOW, about="red:flag:1", order="q1", title="Again?", text="t"),
    records.QuestionPut(at=NOW, about="budget:0", order="q2", title="More?", text="t"),
]


async def asking(bus: Bus, order: str) -> None:
    await bus.put(f"active.{order}", b"{}")
    await bus.put(f"order.{order}", encode(Order(id=order, state="asking", changed=1.0, open_ask=f"{order}.3")))
    fields = {"title": "Again?", "text": "All of it.", "asked_at": 1.0, "deadline": 2.0}
    ask = AskRecord(order=order, number=3, default="deny", **fields)  # type: ignore[arg-type]
    await bus.put(f"ask.{order}.3", encode(ask))


async def test_a_goal_is_shown_whole_with_its_waves_what_it_asks_and_what_it_took(bus: Bus) -> None:
    name, _ = await store.begin(bus, PLAN, "/r", by="ana", key="k")
    await store.happen(bus, name, lambda record: HAPPENED)
    spent = Budget(spent_usd=0.5, spent_tokens=20)
    await bus.put("control", encode(Control(budgets={f"project:{name}": spent, "fleet": Budget(spent_tokens=9)})))
    await asking(bus, "q1")
    found = await views.view(bus, name[:6])
    line = found.line
    assert (line.id, line.goal, line.state, line.branch, line.repository) == (name, "Export", "running", "main", "/r")
    assert (line.by, line.orders, line.there, line.dropped) == ("ana", 4, 1, 0) and line.began > NOW
    assert (line.spent_usd, line.spent_tokens, line.ended, line.why) == (0.5, 20, 0.0, "")
    assert line.asks == (
        GoalAsk(about="red:flag:1", order="q1", number=3, title="Again?", text="All of it."),
        GoalAsk(about="budget:0", order="q2"),
    )
    assert (found.done, found.seen, found.judged, found.judge, found.round) == ("make test", None, "", "", 1)
    assert (found.budget, found.raised, found.placed, found.used) == (PLAN.budget, 0, 2, {"worker": TOOK})
    model = StepView(
        id="model", title="A type.", state="landed", agent="claude", order="g-model", commit="c9", used=TOOK
    )
    flag = StepView(id="flag", title="The flag", state="red", agent="codex", order="g-flag", reds=1, why="it broke")
    writer = StepView(
        id="writer", title="Write.", state="waiting", after=("model", "flag"), agent="claude", waits="flag to land"
    )
    other = StepView(id="other", title="t", state="waiting", agent="claude", waits="flag, which claims the same files")
    assert found.waves == (WaveView(number=1, orders=(model, flag)), WaveView(number=2, orders=(writer, other)))
    over: list[records.AnyGoalEvent] = [
        records.DoneChecked(at=NOW, seen=records.DoneSeen(tip="c9", ok=True)),
        records.GoalJudged(at=NOW, met=True, why="all there"),
        records.StepDropped(at=NOW, step="flag", why="no"),
        records.GoalOver(at=NOW, met=False, why="enough"),
    ]
    await store.happen(bus, name, lambda record: over)
    found = await views.view(bus, name)
    assert [step.waits for wave in found.waves for step in wave.orders] == [""] * 4, "nothing is waited for any more"
    assert (found.line.state, found.line.why, found.line.ended, found.line.dropped) == ("stopped", "enough", NOW, 1)
    assert found.judged == "all there" and found.seen == records.DoneSeen(tip="c9", ok=True)


async def test_the_latest_goals_are_listed_each_with_what_it_asks(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [(await store.begin(bus, PLAN, "/r", by="ana", key=key))[0] for key in ("k", "l", "m")]
    await store.happen(bus, names[2], lambda record: HAPPENED)
    await asking(bus, "q1")
    listed = await views.lines(bus)
    assert [each.id for each in listed] == names[::-1]
    assert listed[0].asks == (GoalAsk(about="red:flag:1", order="q1"), GoalAsk(about="budget:0", order="q2"))
    assert listed[1].asks == () and listed[1].spent_tokens == 0
    monkeypatch.setattr(views, "SHOWN", 2)
    assert [each.id for each in await views.lines(bus)] == names[:0:-1]


async def test_the_plan_is_given_as_it_is_now(bus: Bus) -> None:
    name, _ = await store.begin(bus, PLAN, "/r", by="ana", key="k")
    assert read(await views.plan_text(bus, name[:6])) == (PLAN, []) and time.time() > NOW
