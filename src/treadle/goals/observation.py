"""What is seen of a goal's orders: where they stand, whether their work has landed, what their agents said."""

import asyncio
import time
from collections.abc import Sequence

import msgspec

from treadle.errors import TreadleError
from treadle.fleet import client, control, results
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import PERSON, TRAIN, read_order, read_spec
from treadle.goals.deciding import GoalSeen, OrderSeen, allowance
from treadle.landing import changes
from treadle.landing import train as trains
from treadle.landing.bench import judges
from treadle.landing.changes import TrainChange
from treadle.landing.sending import FOLLOWED
from treadle.policy.protected import is_protected
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import NOT_HERE, Budget, Order, Used
from treadle.wire.goal.plan import GoalPlan, PlannedOrder
from treadle.wire.goal.records import OVER, GoalRecord
from treadle.wire.goal.verdicts import AddedTest, V, checked, in_words, is_test
from treadle.workspace import branch_moves, checkouts
from treadle.workspace.user_repository import UserRepository


async def look(bus: Bus, record: GoalRecord, plan: GoalPlan, *, sure: bool = False) -> GoalSeen:
    """What is seen now. `sure` asks the store's leader about the train, as the scheduler's machine may."""
    user = await asyncio.to_thread(checkouts.around, record.root)
    train = trains.name_of(user.common, record.branch)
    names = open_orders(record)
    # The train first: what leaves it by landing has its proof from that moment on.
    row = await bus.get(keys.TRAIN(train), latest=sure)
    riding = changes.table(keys.TRAIN.read(row.value, row.key)) if row is not None else {}
    budget = (await client.control(bus)).budgets.get(f"project:{record.id}", Budget())
    allowed = _allowed(record, plan, budget)
    wanted = [kind(name) for name in names for kind in (keys.ORDER, keys.SPEC)]
    landing = [step.order for step in record.steps.values() if step.state == "landing"]
    wanted += [keys.LANDED(order, train) for order in landing]
    found = await bus.named(wanted)
    for key in [keys.LANDED(order, train) for order in landing] if sure else []:
        if key not in found and (entry := await bus.get(key, latest=True)) is not None:
            found[key] = entry
    seen = {}
    for name in names:
        if keys.SPEC(name) not in found:
            seen[name] = OrderSeen(stored=False)
            continue
        entry = found.get(keys.ORDER(name))
        if entry is None:  # no scheduler has seen it yet
            seen[name] = OrderSeen()
            continue
        order = read_order(entry)
        proof = found.get(keys.LANDED(name, train))
        landed = keys.LANDED.read(proof.value, proof.key).commit if proof is not None else ""
        spec = read_spec(found[keys.SPEC(name)].value)
        change = riding.get(name)
        seen[name] = _seen(order, spec.agent == PERSON, landed, change)
        if allowed is not None and spec.agent != PERSON:
            if change is not None and change.by and change.to != "person":  # it is the helper's work now
                spec, order = await client.get_spec(bus, change.by), await client.get_order(bus, change.by)
            seen[name] = msgspec.structs.replace(seen[name], short=_short(spec, order, allowed))
    for name, step in record.steps.items():
        if step.state in ("done", "approved") and (order_ := seen.get(step.order)) is not None and order_.changed:
            entry = found[keys.ORDER(step.order)]
            planned = next(each for each in plan.order if each.id == name)
            done = read_order(entry)
            touched = await asyncio.to_thread(touched_by, user, record.branch, done, planned)
            touched = tuple(path for path in touched if path not in step.judge or is_protected(path))
            if step.tests:
                await results.here(bus, done, user)
                touched += await asyncio.to_thread(_differing, user, str(done.result["commit"]), step.tests)
            seen[step.order] = msgspec.structs.replace(order_, touched=touched)
    for order_id in landing:
        if (order_ := seen.get(order_id)) is not None and (order_.landed or order_.left_out):
            helped = await _helped(bus, read_order(found[keys.ORDER(order_id)]))
            seen[order_id] = msgspec.structs.replace(order_, helped=helped)
    tip = ""
    if all(step.state in OVER for step in record.steps.values()):
        tip = await asyncio.to_thread(branch_moves.tip, user, f"refs/heads/{record.branch}")
    return GoalSeen(
        now=time.time(),
        tip=tip,
        orders=seen,
        spent_usd=budget.spent_usd,
        spent_tokens=budget.spent_tokens,
        budget_known=allowed is None or (allowed.usd, allowed.tokens) == (budget.usd, budget.tokens),
    )


async def _helped(bus: Bus, order: Order) -> dict[str, Used]:
    """What those have used, by role, to whom the train has sent this order's work."""
    used: dict[str, Used] = {}
    for _ in range(FOLLOWED):
        if not order.retried_as:
            break
        order = await client.get_order(bus, order.retried_as)
        spec = await client.get_spec(bus, order.id)
        if spec.by == TRAIN:
            role = "worker, sent back" if spec.continues else "reconciler"
            used[role] = used.get(role, Used()).plus(order.used)
    return used


def _allowed(record: GoalRecord, plan: GoalPlan, spent: Budget) -> Budget | None:
    """The budget that holds now, with what was spent of it; None where the goal has none in money or tokens."""
    usd, tokens = allowance(plan, record.raised)
    if usd is None and tokens is None:
        return None
    return msgspec.structs.replace(spent, usd=usd, tokens=tokens)


def _short(spec: Spec, order: Order, allowed: Budget) -> str:
    """Why an order stands still until the budget is raised: nothing is left for it, or more than all was spent."""
    if order.state == "queued":
        why = control.unfit(allowed, spec, order)
        return f"{order.title or order.id} waits: {why}" if why else ""
    why = control.overspent(allowed) if not order.ended else ""
    return f"{why} are used" if why else ""


def open_orders(record: GoalRecord) -> list[str]:
    """The orders that may not have ended, as far as the record knows."""
    names = [step.order for step in record.steps.values() if step.order and step.state not in OVER]
    names += [step.review for step in record.steps.values() if step.review]
    names += [*record.questions.values(), *([record.judge] if record.judge else []), *record.void]
    return names


def _seen(order: Order, asked: bool, landed: str, change: TrainChange | None) -> OrderSeen:
    rides, out = change is not None and change.rides, change if change and change.state == "left out" else None
    if change is not None and change.state == "landed":
        landed = landed or str(order.result.get("commit", ""))
    output = _last_lines(out.output) if out is not None else []
    printed = _last_lines(order.attempts[-1].output) if order.attempts and order.state == "failed" else []
    return OrderSeen(
        ended=order.ended,
        ok=order.state == "done",
        cancelled=order.state == "cancelled",
        unable=bool(order.attempts) and order.attempts[-1].outcome == NOT_HERE,
        why="\n".join([order.why or order.state, *printed]),
        used=order.used,
        changed=bool(order.result.get("commit")),
        commit=str(order.result.get("commit") or ""),
        rides=rides,
        asks=change.by if change is not None and change.state == "asking" else "",
        landed=landed,
        left_out="\n".join([out.why, *output]) if out is not None else "",
        given_up=out is not None and out.kind in ("red", "conflict"),
        retried_as="" if rides else order.retried_as,
        allow=asked and order.result.get("decision") == "allow",
        says=str(order.result.get("says") or "") if asked else "",
        by=str(order.result.get("by") or "") if asked else "",
    )


def _last_lines(output: str) -> list[str]:
    return output.strip().splitlines()[-20:]


def touched_by(user: UserRepository, branch: str, order: Order, planned: PlannedOrder) -> tuple[str, ...]:
    """Which files the order changed that a person should know of before it lands: those that other programs obey, and,
    of those that the branch has, those by which it is accepted: what `accept` names, and tests, unless the plan says by
    name that it changes them."""
    named = {name for command in planned.accept for name in judges(command)}
    changed = [str(path) for path in order.result.get("changed") or ()]
    near = [
        path
        for path in changed
        if path in named
        or any(path.startswith(f"{name}/") for name in named)
        or (is_test(path) and path not in planned.claims)
    ]
    # An order that continues another starts from that one's work, so its own base says nothing.
    ref = f"refs/heads/{branch}"
    known = [path for path in near if user.run("cat-file", "-e", f"{ref}:{path}", check=False).code == 0]
    return tuple(path for path in changed if path in known or is_protected(path))


def _differing(user: UserRepository, commit: str, tests: Sequence[AddedTest]) -> tuple[str, ...]:
    """Which of its reviewer's tests the work lacks, or has in other words."""

    def same(test: AddedTest) -> bool:
        found = user.run("show", f"{commit}:{test.path}", check=False)
        return found.code == 0 and found.stdout.decode("utf-8", "replace").strip() == test.text.strip()

    return tuple(each.path for each in tests if not same(each))


async def answer_of(bus: Bus, name: str, form: type[V]) -> V:
    """What an order's agent has answered: by the tool, or in its last words. Raises RemoteProtocolError if neither is
    such an answer."""
    given = (await client.get_order(bus, name)).result.get("answer")
    return checked(form, given) if given is not None else in_words(form, await last_words(bus, name))


async def last_words(bus: Bus, name: str) -> str:
    """The last message of an order's agent, whole; what its result holds of it where the events are gone."""
    text = ""
    try:
        async for seen in client.events(bus, name):
            event = seen.event if isinstance(seen.event, dict) else {}
            if event.get("type") == "message" and event.get("kind", "text") == "text" and not event.get("parent"):
                text = str(event.get("text", ""))
    except TreadleError:
        pass
    return text or str((await client.get_order(bus, name)).result.get("says") or "")
