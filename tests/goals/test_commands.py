"""What people do about a goal."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.fleet.repositories import git
from treadle.errors import ConfigError, LocalError, TreadleError
from treadle.fleet import client
from treadle.fleet.engine.bus import INBOX, Bus
from treadle.fleet.engine.streams import Pull
from treadle.fleet.orders import encode
from treadle.goals import commands, store
from treadle.landing import train as trains
from treadle.wire.fleet.messages import RunActivity, Wait, Why
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order, OrderReceipt, Used
from treadle.wire.goal.plan import GoalBudget
from treadle.wire.goal.records import (
    AnyGoalEvent,
    JudgePlaced,
    PlanChanged,
    QuestionAnswered,
    QuestionPut,
    ReviewPlaced,
    StepBoarded,
    StepEnded,
    StepLanded,
    StepPlaced,
)

HEAD = 'goal = "g"\ndone = "false"\nverify = "true"\ngates = ["none"]\nroles = { judge = "none", worker = "null" }\n'
PLAN = f"""{HEAD}budget = {{ tokens = 1000, orders = 3 }}
[[order]]
id = "one"
task = "t"
claims = ["a"]
[[order]]
id = "two"
task = "t"
after = ["one"]
[[order]]
id = "three"
task = "t"
claims = ["a"]
"""


async def requested(bus: Bus) -> list[dict[str, object]]:
    """What the scheduler was asked to do since it was looked at last; there is none that does it."""
    found = []
    pull = Pull(bus, INBOX, durable="inbox")
    while messages := await pull.next(0.2):
        found += [msgspec.json.decode(each.data) for each in messages]
        for each in messages:
            await each.ack_sync()
    await pull.close()
    return found


async def test_a_plan_is_begun_once_with_all_its_roles_its_train_and_its_budget(bus: Bus, repository: Path) -> None:
    name, new = await commands.begin(bus, PLAN, str(repository / ".git" / ".."), by="ana")
    record, plan = await commands.show(bus, name[:6])
    assert new and (record.id, record.by, record.root, record.branch) == (name, "ana", str(repository), "main")
    assert plan.roles == {
        "planner": "native",
        "worker": "null",
        "reviewer": "native",
        "reconciler": "native",
        "judge": "none",
    }
    (stored,) = (await trains.trains(bus)).values()
    assert (stored.branch, stored.verify, stored.reconciler) == ("main", "true", "native")
    (told,) = await requested(bus)
    assert (told["do"], told["scope"], told["tokens"], told["usd"]) == ("budget", f"project:{name}", 1000, None)
    assert await commands.begin(bus, PLAN, str(repository)) == (name, False)
    changed = PLAN.replace('judge = "none"', 'judge = "none", reconciler = "codex"').replace("tokens = 1000, ", "")
    await requested(bus)
    other, new = await commands.begin(bus, changed, str(repository), planner=Used(input_tokens=5), fallback=("codex",))
    assert (await commands.show(bus, other))[1].fallback == ("codex",)
    assert new and other != name and (await requested(bus)) == [], "there is no budget that the fleet could hold"
    (stored,) = (await trains.trains(bus)).values()
    assert stored.reconciler == "native", "the train has one already"
    record, _ = await commands.show(bus, other)
    assert record.used == {"planner": Used(input_tokens=5)} and record.by == client.me()
    assert commands.key_of(PLAN) != commands.key_of(changed)


@pytest.mark.parametrize(
    ("change", "says", "hint"),
    [
        (('task = "t"', "task = 3"), "line 9: order[0].task", "`treadle goal check` shows all mistakes"),
        (("budget = { tokens = 1000, orders = 3 }\n", ""), "line 1: budget", "`treadle goal check` shows all mistakes"),
        (('verify = "true"', 'branch = "origin:main"'), "origin:main is a branch of a remote", "push it"),
        (('verify = "true"', 'branch = "nowhere"'), "nowhere", ""),
        (('verify = "true"\n', ""), "no check is set for what lands on main", 'verify = "make test"'),
    ],
)
async def test_a_plan_that_cannot_land_there_is_not_begun(
    bus: Bus, repository: Path, change: tuple[str, str], says: str, hint: str
) -> None:
    git(repository, "remote", "add", "origin", "/nowhere")
    with pytest.raises(TreadleError) as refused:
        await commands.begin(bus, PLAN.replace(*change), str(repository))
    assert says in str(refused.value) and hint in (refused.value.hint or "") and await commands.goals(bus) == {}
    if "budget" in change[0]:
        name, _ = await commands.begin(bus, PLAN.replace(*change), str(repository), budget_required=False)
        assert name in await commands.goals(bus)


async def test_each_order_says_what_it_waits_for_or_does(bus: Bus, repository: Path) -> None:
    name, _ = await commands.begin(bus, PLAN, str(repository))
    assert await commands.explain(bus, name[:6]) == {
        "": "running",
        "one": "is about to be placed",
        "two": "waits for one to land",
        "three": "is about to be placed",
    }
    await bus.put("spec.o1", encode(Spec(id="o1", task="t")))
    now = {"at": 1.0, "step": "one"}
    await store.happen(bus, name, lambda found: [StepPlaced(**now, order="o1")])
    found = await commands.explain(bus, name)
    assert found["one"] == "working: o1 is queued, no scheduler is up: `treadle fleet up`"
    assert found["three"] == "waits for one, which claims the same files"
    cases = [
        (Order(id="o1", state="done", changed=1.0, why="it is done"), "o1 is done, it is done"),
        (Order(id="o1", state="done", changed=1.0), "o1 is done"),
    ]
    for order, told in cases:
        await bus.put("order.o1", encode(order))
        assert (await commands.explain(bus, name))["one"] == f"working: {told}"
    whys = {
        "o1": Why(state="asking", activity=RunActivity(doing="bash make")),
    }

    async def answer(subject: str, data: bytes) -> bytes:
        return encode(whys["o1"])

    await bus.serve("fleet.ask.why.*", answer)
    await bus.put("order.o1", encode(Order(id="o1", state="asking", changed=1.0)))
    found = await commands.explain(bus, name)
    assert found["one"] == "working: o1 is asking, bash make: `treadle fleet answer o1`"
    whys["o1"] = Why(state="running", why="said", waits=Wait(kind="slot", text="a slot"))
    assert (await commands.explain(bus, name))["one"] == "working: o1 is running, a slot"
    whys["o1"] = Why(state="running", why="said")
    assert (await commands.explain(bus, name))["one"] == "working: o1 is running, said"
    put = {"at": 1.0, "title": "?", "text": "?"}
    asked: list[AnyGoalEvent] = [
        StepEnded(**now, ok=True),
        StepBoarded(**now),
        QuestionPut(**put, about="order:three", order="q1"),
        QuestionPut(**put, about="budget:0", order="q2"),
    ]
    await store.happen(bus, name, lambda found: asked)
    found = await commands.explain(bus, name)
    assert found["one"] == "o1 waits in the train: `treadle land show main`"
    assert found["three"] == "waits for an answer (order): `treadle fleet answer q1`"
    assert found[""] == (
        "asks order:three: `treadle fleet answer q1 allow|deny`; budget:0: `treadle fleet answer q2 allow|deny`"
    )
    landed: list[AnyGoalEvent] = [
        StepLanded(**now, commit="c"),
        QuestionAnswered(at=1.0, about="order:three", allow=True),
        QuestionAnswered(at=1.0, about="budget:0", allow=False),
        StepPlaced(at=1.0, step="three", order="o3"),
        StepEnded(at=1.0, step="three", ok=True),
        ReviewPlaced(at=1.0, step="three", order="r3"),
        JudgePlaced(at=1.0, order="j1"),
    ]
    await store.happen(bus, name, lambda found: landed)
    for each in ("o3", "r3"):
        await bus.put(f"spec.{each}", encode(Spec(id=each, task="t")))
    found = await commands.explain(bus, name)
    assert found == {
        "": "being judged",
        "two": "waits for 4 of 3 orders are used",
        "three": "reviewing: r3 is running, said",
    }


async def test_a_plan_that_runs_is_changed_and_keeps_what_the_new_text_does_not_say(bus: Bus, repository: Path) -> None:
    name, _ = await commands.begin(bus, f'source = "issue 3"\n{PLAN}', str(repository))
    await requested(bus)
    with pytest.raises(ConfigError, match="line 9: order.0..task: .*") as refused:
        await commands.change(bus, name, PLAN.replace('task = "t"', "task = 3"))
    assert refused.value.hint == "`treadle goal check` shows all"
    git(repository, "branch", "next")
    with pytest.raises(ConfigError, match="the branch of a goal that runs cannot be changed") as refused:
        await commands.change(bus, name, f'branch = "next"\n{PLAN}')
    assert refused.value.hint == "stop it and run the new plan"
    with pytest.raises(ConfigError, match="budget"):
        await commands.change(bus, name, PLAN.replace("budget = { tokens = 1000, orders = 3 }\n", ""))
    changed = PLAN.replace("1000", "2000").replace('judge = "none", worker', 'judge = "codex", worker')
    record = await commands.change(bus, name[:7], changed, by="ana")
    plan = await store.get_plan(bus, name, 2)
    assert record.plan == 2 and (plan.roles["judge"], plan.roles["reviewer"]) == ("codex", "native")
    assert plan.source == "issue 3" and plan.budget == GoalBudget(tokens=2000, orders=3)
    (told,) = await requested(bus)
    assert (told["do"], told["tokens"]) == ("budget", 2000)
    last = (await commands.history(bus, name))[-1]
    assert isinstance(last, PlanChanged) and (last.by, last.why) == ("ana", "changed by a person")
    free = PLAN.replace("budget = { tokens = 1000, orders = 3 }\n", "")
    other, _ = await commands.begin(bus, free, str(repository), budget_required=False)
    assert (await commands.change(bus, other, f'{free}[[order]]\nid = "x"\ntask = "t"\n')).plan == 2


async def test_pausing_and_going_on_hold_the_fleet_too_and_each_happens_once(bus: Bus, repository: Path) -> None:
    name, _ = await commands.begin(bus, PLAN, str(repository))
    await requested(bus)
    scope = f"project:{name}"
    assert (await commands.resume(bus, name)).events == 1, "it was not paused"
    paused = await commands.pause(bus, name, by="ana", now=True)
    assert (paused.state, paused.why) == ("paused", "paused") and (await commands.explain(bus, name))[
        ""
    ] == "paused: paused"
    assert (await commands.pause(bus, name, why="again")).why == "paused", "it is paused already"
    resumed = await commands.resume(bus, name, by="ana")
    assert resumed.state == "running" and resumed.events == 3
    assert [(each["do"], each["scope"], each.get("now", False)) for each in await requested(bus)] == [
        ("resume", scope, False),
        ("pause", scope, True),
        ("pause", scope, False),
        ("resume", scope, False),
    ]
    stopped = await commands.stop(bus, name, by="ana")
    assert (stopped.state, stopped.why) == ("stopped", "stopped by ana")
    assert (await commands.stop(bus, name, why="twice", by="ben")).why == "stopped by ana"
    assert [each["do"] for each in await requested(bus)] == ["resume", "resume"], "what is paused could not end"
    for late in (commands.pause(bus, name), commands.resume(bus, name), commands.say(bus, name, "x")):
        with pytest.raises(LocalError, match=f"the goal {name} has ended: stopped") as refused:
            await late
        assert refused.value.hint == "run its plan again for a new one"
    with pytest.raises(LocalError, match="has ended"):
        await commands.retry(bus, name, "one")


async def test_only_what_was_dropped_is_tried_again(bus: Bus, repository: Path) -> None:
    name, _ = await commands.begin(bus, PLAN, str(repository))
    with pytest.raises(ConfigError, match="the plan has no order 'four'") as refused:
        await commands.retry(bus, name, "four")
    assert refused.value.hint == "it has one, two, three"
    with pytest.raises(LocalError, match="one is waiting, and only what was dropped can be tried again"):
        await commands.retry(bus, name, "one")


async def test_who_works_is_told_and_who_cannot_be_says_why(bus: Bus, repository: Path) -> None:
    name, _ = await commands.begin(bus, PLAN, str(repository))
    placed = [StepPlaced(at=1.0, step=step, order=order) for step, order in (("one", "o1"), ("three", "o3"))]
    await store.happen(bus, name, lambda found: placed)
    await bus.put("spec.o1", encode(Spec(id="o1", task="t")))
    await bus.put("spec.o3", encode(Spec(id="o3", task="t")))
    await bus.put("order.o3", encode(Order(id="o3", state="done", changed=1.0)))
    outcomes = await commands.say(bus, name, "be careful", by="ana")
    assert outcomes["one"] == "told" and "the order o3 has ended: done" in outcomes["three"] and len(outcomes) == 2
    ((_, message),) = await client.messages(bus, "o1")
    assert (message.text, message.by) == ("be careful", "ana")
    assert (await store.load(bus, name))[0].comments == ("be careful",)


async def test_one_who_follows_sees_each_change_until_it_is_over_and_the_report_says_what_became_of_it(
    bus: Bus, repository: Path
) -> None:
    name, _ = await commands.begin(bus, PLAN, str(repository))
    placed = [StepPlaced(at=1.0, step="one", order="o1"), StepPlaced(at=1.0, step="three", order="o3")]
    seen: list[int] = []
    async with asyncio.timeout(60):
        async for record in commands.follow(bus, name):
            seen.append(record.events)
            if record.events == 1:
                await store.happen(bus, name, lambda found: placed)
            elif not record.ended:
                await commands.stop(bus, name, by="ana")
        assert seen == [1, 3, 4] and record.state == "stopped"
    assert [record.events async for record in commands.follow(bus, name)] == [4], "it is over"
    await bus.put("order.o1", encode(Order(id="o1", state="done", changed=1.0, agent="codex")))
    receipt = OrderReceipt(order="o1", outcome="done").sealed()
    await bus.put("receipt.o1", encode(receipt))
    made = await commands.report(bus, name[:6])
    assert (made.agents, made.receipts) == ({"o1": "codex"}, {"o1": receipt.sha256}) and made.goal.id == name
    assert [type(event).__name__ for event in made.history] == ["GoalBegun", "StepPlaced", "StepPlaced", "GoalOver"]
    assert f"| codex | 1 | 0 | - | 0 | {receipt.sha256[:12]} |" in made.text and len(made.plan.order) == 3
