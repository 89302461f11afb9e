"""What people ask of goals who may not write a goal's record themselves, as the page: left in the store, and done by
the foreman within seconds.

One foreman takes a request by compare-and-set before it does it. One that is killed in between leaves it to the next,
after a while; so a request is done at least once, and by one foreman at a time.
"""

import asyncio
import contextlib
import logging
import time

import msgspec
from msgspec.structs import replace

from treadle.errors import ConfigError, TreadleError
from treadle.fleet.engine.bus import Bus, Stale, Unreachable
from treadle.fleet.orders import encode, new_id
from treadle.goals import commands, store
from treadle.wire.goal.reading import read
from treadle.wire.goal.records import GoalRequest, GoalRequestKind

log = logging.getLogger(__name__)

AGAIN_SECONDS = 30.0
"""After so long, another foreman does what one has taken and not done."""


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
    await bus.put(f"goalrequest.{new_id()}", encode(made), expect=0)


async def leave_plan(bus: Bus, text: str, root: str, *, by: str, budget_required: bool = True) -> tuple[str, bool]:
    """Have this plan begun. Returns the id that the goal gets, and whether it is new. Raises where it has a mistake."""
    user, plan = await asyncio.to_thread(commands.checked, text, root, budget_required)
    if not plan.verify:
        raise ConfigError(f"nothing checks what lands on {plan.branch}", hint='add a check: verify = "make test"')
    name, running = await store.name_for(bus, commands.key_of(text), user.top)
    if not running:
        made = GoalRequest(
            goal=name, do="begin", by=by, at=time.time(), text=text, root=user.top, no_budget=not budget_required
        )
        await bus.put(f"goalrequest.{new_id()}", encode(made), expect=0)
    return name, not running


async def take_up(bus: Bus) -> None:
    """Do what was left, the earliest first."""
    found = await bus.named(["goalrequest.*"])
    for entry in sorted(found.values(), key=lambda each: each.revision):
        try:
            request = msgspec.json.decode(entry.value, type=GoalRequest)
        except msgspec.MsgspecError as error:
            log.warning("%s is removed, because it cannot be read: %s", entry.key, error)
            await bus.purge(entry.key)
            continue
        if time.time() - request.taken < AGAIN_SECONDS:
            continue
        with contextlib.suppress(Stale):  # another foreman has it
            await bus.put(entry.key, encode(replace(request, taken=time.time())), expect=entry.revision)
            try:
                await _do(bus, request)
            except Unreachable:
                raise
            except TreadleError as error:  # the goal went on since it was left
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
