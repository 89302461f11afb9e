"""What people ask of goals who may not write a goal's record themselves, as the page: left in the store, and done by
the foreman within seconds.

One foreman takes a wish by compare-and-set before it does it. One that is killed in between leaves it to the next,
after a while; so a wish is done at least once, and by one foreman at a time.
"""

import contextlib
import logging
import time

import msgspec
from msgspec.structs import replace

from treadle.errors import TreadleError
from treadle.fleet.engine.bus import Bus, Stale, Unreachable
from treadle.fleet.orders import encode, new_id
from treadle.goals import commands, store
from treadle.wire.goal.records import GoalWish, GoalWishKind

log = logging.getLogger(__name__)

AGAIN_SECONDS = 30.0
"""After so long, another foreman does what one has taken and not done."""


async def leave(
    bus: Bus, name: str, do: GoalWishKind, *, by: str, text: str = "", step: str = "", now: bool = False
) -> None:
    """Have this done. Raises where it cannot be done as the goal is now."""
    record = (await store.goals(bus))[await store.resolve(bus, name)]
    commands.still_open(record)
    if do == "retry":
        commands.check_retry(record, step)
    made = GoalWish(goal=record.id, do=do, by=by, at=time.time(), text=text, step=step, now=now)
    await bus.put(f"goalwish.{new_id()}", encode(made), expect=0)


async def take_up(bus: Bus) -> None:
    """Do what was left, the earliest first."""
    found = await bus.named(["goalwish.*"])
    for entry in sorted(found.values(), key=lambda each: each.revision):
        try:
            wish = msgspec.json.decode(entry.value, type=GoalWish)
        except msgspec.MsgspecError as error:
            log.warning("%s is removed, because it cannot be read: %s", entry.key, error)
            await bus.purge(entry.key)
            continue
        if time.time() - wish.taken < AGAIN_SECONDS:
            continue
        with contextlib.suppress(Stale):  # another foreman has it
            await bus.put(entry.key, encode(replace(wish, taken=time.time())), expect=entry.revision)
            try:
                await _do(bus, wish)
            except Unreachable:
                raise
            except TreadleError as error:  # the goal went on since it was left
                log.warning("goal %s: %s of %s was not done: %s", wish.goal, wish.do, wish.by, error)
            await bus.purge(entry.key)


async def _do(bus: Bus, wish: GoalWish) -> None:
    match wish.do:
        case "pause":
            await commands.pause(bus, wish.goal, why=wish.text, by=wish.by, now=wish.now)
        case "resume":
            await commands.resume(bus, wish.goal, by=wish.by)
        case "stop":
            await commands.stop(bus, wish.goal, why=wish.text, by=wish.by)
        case "retry":
            await commands.retry(bus, wish.goal, wish.step, by=wish.by)
        case "say":
            await commands.say(bus, wish.goal, wish.text, by=wish.by)
