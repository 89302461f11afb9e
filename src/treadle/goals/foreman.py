"""Carries goals out while its node schedules: looks at what became of their orders, does what `deciding` says, and
takes up requests that people left in the store.

Any number of foremen at once, killed at any moment, do no harm: what is decided is written down by compare-and-set
before it is done, and doing it again changes nothing.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from treadle.errors import ConfigError, LocalError, RemoteProtocolError, TreadleError, kind_of
from treadle.fleet import client, results
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import Bus, Stale, Write
from treadle.fleet.engine.controller import Controller, Drive
from treadle.fleet.orders import encode, new_id
from treadle.goals import briefing, commands, deciding, store
from treadle.goals.check import stopping
from treadle.goals.deciding import CancelOpen, Do, GoalMove, GoalSeen, Happened
from treadle.goals.observation import answer_of, last_words, look, open_orders, touched_by
from treadle.landing import train as trains
from treadle.landing.bench import Bench
from treadle.receipts.trace import Check
from treadle.wire.fleet import keys
from treadle.wire.fleet.records import Delay
from treadle.wire.goal.plan import GoalPlan, PlannedOrder, faults, read
from treadle.wire.goal.records import (
    AcceptanceTried,
    AnyGoalEvent,
    DoneChecked,
    DoneSeen,
    GoalDelayed,
    GoalJudged,
    GoalPaused,
    GoalRecord,
    GoalRequest,
    GoalRequestKind,
    PlanChanged,
    PlanTried,
    QuestionPut,
    ReviewGiven,
    RoundBegun,
)
from treadle.wire.goal.verdicts import JudgeVerdict, ReviewVerdict
from treadle.workspace import branch_moves, checkouts

# What people ask of goals who may not write a goal's record themselves, as the page: left in the store, and done by
# the foreman within seconds.
#
# One foreman takes a request by compare-and-set before it does it. One that is killed in between leaves it to the
# next, after a while; so a request is done at least once, and by one foreman at a time.

log = logging.getLogger(__name__)

AGAIN_SECONDS = 30.0
"""Seconds after which another foreman takes over a request that one has taken and not done."""


async def leave(
    bus: Bus, name: str, do: GoalRequestKind, *, by: str, text: str = "", step: str = "", now: bool = False
) -> None:
    """Have this done. Raises where it cannot be done as the goal is now."""
    record = (await store.goals(bus))[await store.resolve(bus, name)]
    commands.still_open(record)
    if do == "retry":
        commands.check_retry(record, step)
    if do == "change":
        before = await store.get_plan(bus, record.id, record.plan)
        after, mistakes = read(text, budget_required=before.budget is not None)
        if after is None or mistakes:
            raise ConfigError(
                f"line {mistakes[0].line}: {mistakes[0].place}: {mistakes[0].what}", hint=mistakes[0].hint
            )
        store.check_change(record, before, after)
    made = GoalRequest(goal=record.id, do=do, by=by, at=time.time(), text=text, step=step, now=now)
    await bus.put(keys.GOAL_REQUEST(new_id()), encode(made), expect=0)


async def leave_plan(bus: Bus, text: str, root: str, *, by: str, budget_required: bool = True) -> tuple[str, bool]:
    """Have this plan begun. Returns the id that the goal gets, and whether it is new. Raises where it has a mistake."""
    user, plan = await asyncio.to_thread(commands.checked, text, root, budget_required)
    if not plan.verify:
        raise ConfigError(f"no check is set for what lands on {plan.branch}", hint='add a check: verify = "make test"')
    name, running = await store.name_for(bus, commands.key_of(text), user.top)
    if not running:
        made = GoalRequest(
            goal=name, do="begin", by=by, at=time.time(), text=text, root=user.top, no_budget=not budget_required
        )
        await bus.put(keys.GOAL_REQUEST(new_id()), encode(made), expect=0)
    return name, not running


async def take_up(bus: Bus) -> None:
    """Do what was left, the earliest first."""
    found = await bus.named([keys.GOAL_REQUEST()])
    for entry in sorted(found.values(), key=lambda each: each.revision):
        request = await client.read_left(bus, entry, keys.GOAL_REQUEST)
        if request is None or time.time() - request.taken < AGAIN_SECONDS:
            continue
        with contextlib.suppress(Stale):  # another foreman has it
            await bus.put(entry.key, encode(replace(request, taken=time.time())), expect=entry.revision)
            try:
                await _do(bus, request)
            except TreadleError as error:  # the goal went on since it was left
                if kind_of(error) == "transient":
                    raise
                log.warning("goal %s: %s of %s was not done: %s", request.goal, request.do, request.by, error)
            await bus.purge(entry.key)


async def _do(bus: Bus, request: GoalRequest) -> None:
    match request.do:
        case "begin":
            await commands.begin(bus, request.text, request.root, budget_required=not request.no_budget, by=request.by)
        case "pause":
            await commands.pause(bus, request.goal, why=request.text, by=request.by, now=request.now)
        case "resume":
            await commands.resume(bus, request.goal, by=request.by)
        case "stop":
            await commands.stop(bus, request.goal, why=request.text, by=request.by)
        case "retry":
            await commands.retry(bus, request.goal, request.step, by=request.by)
        case "change":
            await commands.change(bus, request.goal, request.text, by=request.by)
        case "say":
            await commands.say(bus, request.goal, request.text, by=request.by)


LOOK_SECONDS = 0.5
CLOSED_SECONDS = 60.0
"""For so long after its end a goal is looked at: another foreman may just be placing an order of it."""
OUTPUT = 3000
CHECKS = ("try acceptance", "try plan", "run done")
"""What may take long: other things are done meanwhile."""


class Foreman(Controller):
    """Rides along with the scheduler and keeps one `GoalDrive` for each goal that is under way here."""

    def __init__(self) -> None:
        super().__init__()
        self._driven: set[str] = set()

    def idle_seconds(self) -> float:
        return LOOK_SECONDS

    async def take_up(self, bus: Bus) -> None:
        await take_up(bus)

    async def due(self, bus: Bus) -> Mapping[str, Delay | None]:
        """What another machine has is left to that one. A goal that is over may still have open orders."""
        found = (await store.goals(bus)).items()
        return {
            name: record.delay for name, record in found if os.path.isdir(record.root) and not self._is_closed(record)
        }

    def _is_closed(self, record: GoalRecord) -> bool:
        """Whether it is over and nothing of it is open. Also one that was over before this process began is looked at:
        who ended it may have been killed before its orders were called off."""
        if not record.ended or record.id not in self._driven and open_orders(record):
            self._driven.add(record.id)
            return False
        return time.time() - record.ended > CLOSED_SECONDS

    async def drive(self, bus: Bus, name: str) -> None:
        await GoalDrive(bus, name).run()

    async def set_delay(self, bus: Bus, name: str, delay: Delay) -> None:
        await _set_delay(bus, name, delay)

    async def stop(self, bus: Bus, name: str, error: Exception) -> None:
        why = str(error)

        def pause(record: GoalRecord) -> Sequence[AnyGoalEvent]:
            return [GoalPaused(at=time.time(), by="goal", why=why)] if record.state == "running" else []

        await store.happen(bus, name, pause)


async def _set_delay(bus: Bus, name: str, delay: Delay | None) -> None:
    await store.happen(bus, name, lambda found: [GoalDelayed(at=time.time(), by="goal", delay=delay)])


class GoalDrive(Drive):
    """One goal, carried on by one process."""

    def __init__(self, bus: Bus, name: str) -> None:
        self.bus = bus
        self.name = name
        self.record, self.revision = GoalRecord(id=name), 0
        self._plan: tuple[int, GoalPlan] | None = None
        self._long: dict[GoalMove, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until the goal is over and nothing of it is open."""
        try:
            await self.carry_on()
        finally:
            await tasks.end([*self._long.values()])

    @property
    def delay(self) -> Delay | None:
        return self.record.delay

    async def set_delay(self, delay: Delay | None) -> None:
        await _set_delay(self.bus, self.name, delay)

    async def read(self) -> None:
        self.record, self.revision = await store.load(self.bus, self.name)

    def over(self) -> bool:
        return bool(self.record.ended) and not self._long

    async def wait(self) -> None:
        if self._long:
            await asyncio.wait(self._long.values(), timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(LOOK_SECONDS)

    async def step(self) -> bool:
        record, revision = self.record, self.revision
        for move, task in list(self._long.items()):
            if task.done():
                del self._long[move]
                task.result()
        plan = await self._planned(record)
        seen = await look(self.bus, record, plan, sure=True)
        for move in deciding.moves(record, plan, seen):
            if isinstance(move, Do) and move.what in CHECKS:
                if move not in self._long:
                    self._long[move] = asyncio.create_task(self._check(move, record, plan))
                continue
            await self._do(move, record, revision, plan, seen)
            return True
        return False

    async def _planned(self, record: GoalRecord) -> GoalPlan:
        if self._plan is None or self._plan[0] != record.plan:
            self._plan = (record.plan, await store.get_plan(self.bus, self.name, record.plan))
        return self._plan[1]

    async def _do(self, move: GoalMove, record: GoalRecord, revision: int, plan: GoalPlan, seen: GoalSeen) -> None:
        match move:
            case Happened():
                await store.write(self.bus, record, revision, [move.event])
            case CancelOpen():
                for order in move.orders:
                    with contextlib.suppress(LocalError):  # it has ended meanwhile
                        await client.cancel(self.bus, order, why=move.why, by="goal")
                await asyncio.sleep(LOOK_SECONDS)
            case Do("tell budget"):
                await briefing.tell(self.bus, record.id, plan, record.raised)
                await asyncio.sleep(LOOK_SECONDS)  # the scheduler takes it up
            case Do("submit question", about):
                await self._ask(record, about)
            case Do("submit work", step):
                await self._submit_work(record, plan, step, seen)
            case Do("submit review", step):
                await self._submit_review(record, plan, step, seen)
            case Do("submit judge"):
                await client.submit(self.bus, [briefing.judge(record, plan, seen)])
            case Do("take review", step):
                await self._take_review(record, revision, step, seen)
            case Do("take judgement"):
                await self._take_judgement(record, revision, plan, seen)
            case Do("board", step):
                await self._board(record, step)

    # Orders...

    async def _ask(self, record: GoalRecord, about: str) -> None:
        for event in reversed(await store.history(self.bus, self.name)):
            if isinstance(event, QuestionPut) and event.about == about:
                spec = briefing.question(record, event.order, event.title, event.text)
                await client.submit(self.bus, [spec])
                return

    async def _submit_work(self, record: GoalRecord, plan: GoalPlan, name: str, seen: GoalSeen) -> None:
        step = record.steps[name]
        if not step.fresh:
            answer = record.answers.get(f"red:{name}:{step.reds}")
            more = [answer.text] if answer is not None and answer.text else []
            before, comments = step.orders[-2], briefing.comments(step, [*more, *record.comments])
            verify = briefing.verified(await client.get_spec(self.bus, before), step)
            await client.send_back(self.bus, before, comments, by="goal", more={"verify": verify})
            return
        user = await asyncio.to_thread(checkouts.around, record.root)
        base = await asyncio.to_thread(branch_moves.tip, user, f"refs/heads/{record.branch}")
        planned = _order_of(plan, name)
        answers = [each for each in planned.after if record.steps[each].state == "answered"]
        found = {each: await last_words(self.bus, record.steps[each].order) for each in answers}
        spec = await asyncio.to_thread(briefing.work, record, plan, name, base, seen, found)
        await client.submit(self.bus, [spec])

    async def _submit_review(self, record: GoalRecord, plan: GoalPlan, name: str, seen: GoalSeen) -> None:
        order = await client.get_order(self.bus, record.steps[name].order)
        commit = str(order.result["commit"])
        user = await asyncio.to_thread(checkouts.around, record.root)
        await results.here(self.bus, order, user)
        base = await results.began_from(self.bus, order)
        diff = (await asyncio.to_thread(user.run, "diff", "--no-ext-diff", base, commit)).stdout.decode(
            "utf-8", "replace"
        )
        judge = await asyncio.to_thread(touched_by, user, record.branch, order, _order_of(plan, name))
        words = ("diff", "--no-ext-diff", base, commit, "--", *(f":(top,literal){path}" for path in judge))
        checks = (await asyncio.to_thread(user.run, *words)).stdout.decode("utf-8", "replace") if judge else ""
        await client.submit(self.bus, [briefing.review(record, plan, name, commit, base, diff, seen, judge, checks)])

    async def _take_review(self, record: GoalRecord, revision: int, name: str, seen: GoalSeen) -> None:
        step = record.steps[name]
        order = seen.orders[step.review]
        given = ReviewGiven(at=seen.now, by=step.review, step=name, verdict="none", used=order.used)
        try:
            if not order.ok:
                raise RemoteProtocolError(order.why)
            found = await answer_of(self.bus, step.review, ReviewVerdict)
            comments = [results.Comment(text=each.text, path=each.path, line=each.line) for each in found.comments]
            patch = (await results.diff(self.bus, step.order)).decode("utf-8", "replace") if comments else ""
            text = results.written(comments, patch) or "the reviewer adds tests"
            verdict = "approve" if found.verdict == "approve" else "object"
            judge = found.judge if briefing.shows_judge(await client.get_spec(self.bus, step.review)) else ()
            given = replace(given, verdict=verdict, comments=text, tests=found.tests, judge=judge)
        except RemoteProtocolError as error:
            given = replace(given, comments=str(error))
        await store.write(self.bus, record, revision, [given])

    async def _take_judgement(self, record: GoalRecord, revision: int, plan: GoalPlan, seen: GoalSeen) -> None:
        order = seen.orders[record.judge]
        judged = GoalJudged(at=seen.now, by=record.judge, met=None, used=order.used)
        more: list[Write] = []
        try:
            if not order.ok:
                raise RemoteProtocolError(order.why)
            found = await answer_of(self.bus, record.judge, JudgeVerdict)
        except RemoteProtocolError as error:
            judged = replace(judged, why=f"the judge gave no verdict: {error}")
            await store.write(self.bus, record, revision, [judged])
            return
        events: list[AnyGoalEvent] = [replace(judged, met=found.met, why=found.why, more=len(found.orders))]
        if found.orders:
            grown = _grown(plan, record, found.orders)
            wrong = [*faults(grown)] or deciding.enough(record)
            if wrong:
                why = f"{found.why} It wants {len(found.orders)} more orders: {wrong[0]}"
                events = [replace(judged, met=False, why=why)]
            else:
                steps = tuple(each.id for each in grown.order)
                events += [
                    PlanChanged(at=seen.now, by="judge", plan=record.plan + 1, steps=steps, why=found.why),
                    RoundBegun(at=seen.now, by="judge"),
                ]
                more = [store.plan_write(record.id, record.plan + 1, grown)]
        await store.write(self.bus, record, revision, events, *more)

    async def _board(self, record: GoalRecord, name: str) -> None:
        train = await trains.ensure(self.bus, record.root, record.branch)
        step = record.steps[name]
        touched = record.answers.get(f"weaker:{name}:{step.reds}")
        anyway = touched is not None and touched.allow
        await trains.board(self.bus, train, [step.order], anyway=anyway, once=True, may_change=step.judge)

    # Checks, which may take long...

    async def _check(self, move: Do, record: GoalRecord, plan: GoalPlan) -> None:
        user = await asyncio.to_thread(checkouts.around, record.root)
        bench = await asyncio.to_thread(Bench, trains.name_of(user.common, record.branch), user, record.branch)
        tip = await asyncio.to_thread(bench.branch.tip)
        if move.what == "run done":
            done = await bench.check(tip, plan.done, plan.setup, ())
            result = DoneSeen(tip=tip, ok=done.ok, output=done.output_tail.strip()[-OUTPUT:])
            event: AnyGoalEvent = DoneChecked(at=time.time(), seen=result)
        elif move.what == "try plan":
            event = PlanTried(at=time.time(), wrong="\n".join([each async for each in stopping(plan, bench)]))
        else:
            commands = _order_of(plan, move.about).accept
            checks: list[Check] = []
            for command in commands:  # one that fails is enough: it says that something is to be done
                checks.append(await bench.check(tip, command, plan.setup, ()))
                if not checks[-1].ok:
                    break
            event = AcceptanceTried(at=time.time(), step=move.about, passes=all(each.ok for each in checks))

        def still(now: GoalRecord) -> Sequence[AnyGoalEvent]:
            """Unless another foreman was quicker, or it is no longer asked."""
            step = now.steps.get(event.step) if isinstance(event, AcceptanceTried) else None
            wanted = step is None or (step.state, step.accept) == ("waiting", "")
            wanted = wanted and not (isinstance(event, PlanTried) and now.tried)
            return [event] if not now.ended and now.plan == record.plan and wanted else []

        await store.happen(self.bus, self.name, still)


def _order_of(plan: GoalPlan, name: str) -> PlannedOrder:
    return next(each for each in plan.order if each.id == name)


def _grown(plan: GoalPlan, record: GoalRecord, orders: Sequence[PlannedOrder]) -> GoalPlan:
    """The plan with the judge's orders. One whose id is taken gets the round in its name."""
    taken = set(record.steps)
    names = {each.id: f"{each.id}-{record.round + 1}" if each.id in taken else each.id for each in orders}
    fresh = [
        replace(each, id=names[each.id], after=tuple(names.get(one, one) for one in each.after)) for each in orders
    ]
    return replace(plan, order=(*plan.order, *fresh))
