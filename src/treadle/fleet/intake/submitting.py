"""Submits orders: stored on return; the same key always gives the same order, and is refused for another."""

import asyncio
import hashlib
import os
import time
from collections.abc import Sequence

import msgspec

from treadle.errors import ConfigError, LocalError, StorageError
from treadle.fleet.engine.bus import STATE, TIMEOUT, Bus, Stale, Unreachable
from treadle.fleet.orders import checked, encode, new_id, read_spec
from treadle.fleet.run import trees
from treadle.fleet.run.sources import commit_of
from treadle.wire.fleet.orders import HERE, OrderFields, OrderRequest, Spec
from treadle.workspace import checkouts, remotes

IN_FLIGHT = 64
SUBMIT_SECONDS = 20.0
"""How long submitting is tried: a cluster that lost a server stores nothing for some seconds."""


class KeyUsed(LocalError):
    """The idempotency key was used before, for another order."""

    code = "key_used"


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """An order that is stored. `new` is False when one with the same key was stored before."""

    id: str
    new: bool
    ignored: tuple[str, ...] = ()
    """What the repository's own file asked for and was not given."""


def made(request: OrderRequest, *, by: str) -> Spec:
    """The order that is submitted for what was asked. Looks for the commit that the directory is at.

    Work that is to land starts from its branch as it is when the order is placed, so that it is not behind already.
    """
    given = {name: getattr(request, name) for name in OrderFields.__struct_fields__}
    root = os.path.abspath(os.path.expanduser(request.root)) if request.root else ""
    if request.land:
        given["land"] = _branch(request.land, root)
    fixed = root and not request.in_place and not request.land
    base = request.base or (commit_of(root) if fixed else "")
    more = {"id": new_id(request.key), "created": time.time(), "by": by, "root": root, "base": base}
    more |= {"asked": _digest(request)} if request.key else {}
    return checked(Spec(**{**given, **more}))


def _branch(land: str, root: str) -> str:
    """The branch that is meant, which is there as far as can be seen from here."""
    user = checkouts.find(root) if os.path.isdir(root) else None
    if user is None:
        if land == HERE:
            raise ConfigError("no repository is here whose branch could be meant", hint="name it: --land BRANCH")
        return land
    branch = checkouts.branch_here(user) if land == HERE else land
    remote, _ = remotes.split(branch)
    if remote:
        remotes.Remote(user, remote)  # its branch is looked for when the order is placed
    else:
        trees.commit_of(user, remotes.ref_of(branch))
    return branch


def _digest(request: OrderRequest) -> str:
    """Of all that was asked for but the start time, which may have been given as a time from now."""
    plain = msgspec.structs.replace(request, key="", not_before=0.0)
    return hashlib.blake2b(msgspec.json.encode(plain, order="deterministic"), digest_size=16).hexdigest()


async def submit(bus: Bus, specs: Sequence[Spec]) -> list[Given]:
    """Store these orders. Returns when all are durable; repeating one returns the first."""
    for spec in specs:
        checked(spec)
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def one(spec: Spec) -> Given:
        async with slots:
            return await _submit_one(bus, spec)

    return list(await asyncio.gather(*(one(spec) for spec in specs)))


async def _submit_one(bus: Bus, spec: Spec) -> Given:
    data = encode(spec)
    began, tried, last = time.monotonic(), 0, -1
    while True:
        asked = time.monotonic()
        try:
            await bus.put(f"spec.{spec.id}", data, expect=0)
            return Given(id=spec.id, new=True)
        except Stale:
            entry = await bus.get(f"spec.{spec.id}")
            before = read_spec(entry.value).asked if entry is not None else ""
            if before and spec.asked and before != spec.asked:
                hint = "use another key; the same key is for submitting the same once more"
                raise KeyUsed(f"this key was used before for another order, {spec.id}", hint=hint) from None
            # When an answer was lost on the way, what is stored may be ours, from the earlier try.
            return Given(id=spec.id, new=tried > 0 and entry is not None and entry.value == data)
        except Unreachable:
            if time.monotonic() - began > SUBMIT_SECONDS:
                raise
            tried += 1
            if time.monotonic() - asked > TIMEOUT / 2:
                last = await refuse_if_stuck(bus, spec.id, last)
            await asyncio.sleep(0.3)


async def refuse_if_stuck(bus: Bus, name: str, before: int) -> int:
    """A server whose disk is full ignores writes and answers everything else; one that is slow stores what others give
    it. Returns its last revision, to be compared with at the next try that gets no answer; -1 when it does not say."""
    try:
        reply = await bus.request(f"$JS.API.STREAM.INFO.{STATE}", timeout=1.0)
        last = int(msgspec.json.decode(reply.data)["state"]["last_seq"])
    except (Unreachable, KeyError):
        return -1  # it is away or has no leader now; another try may succeed
    if last != before:
        return last
    raise StorageError(
        f"the engine answers, but has stored nothing since the last try, so the order {name} was not submitted",
        hint="`treadle fleet status` on its machine says whether its disk is full; what was given before is kept",
    )
