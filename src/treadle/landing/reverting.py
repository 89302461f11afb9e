"""Takes landed work back: by an order without an agent whose work is the reverse. It lands like anything else."""

import shlex
import time
from collections.abc import Iterable

from msgspec.structs import replace

from treadle.errors import ConfigError, NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import new_id
from treadle.fleet.run.null import NAME as NULL
from treadle.landing import train
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.train import LandedRecord, TrainRecord


async def revert(bus: Bus, orders: list[str], *, branch: str = "", agent: str = "", by: str = "") -> tuple[str, str]:
    """Submit the order that takes these back, and return its train and its id. With an agent, that one does it."""
    found = [await _proof(bus, order, branch) for order in orders]
    names = {proof.train for proof in found}
    if len(names) != 1:
        raise ConfigError("these have landed on different branches", hint="take back those of one branch at a time")
    (name,) = names
    if where := next((proof.repository for proof in found if proof.repository), ""):
        await train.ensure(bus, where, found[0].branch)  # merged by hand: the branch may have no train yet
    record, _ = await train.load(bus, name)
    if not record.verify:
        hint = f"`treadle land set {name} --verify COMMAND`, then once more"
        raise ConfigError(f"no check is set for {record.branch}, and nothing lands without one", hint=hint)
    latest_first = sorted(found, key=lambda proof: (proof.at, proof.seq), reverse=True)
    spec = await _spec(bus, record, latest_first, agent)
    (given,) = await client.submit(bus, [replace(spec, by=by or client.me())])
    return name, given.id


async def landed_of(bus: Bus, orders: Iterable[str], branch: str) -> list[str]:
    """Those of these orders that landed on this branch. One that was sent back and the order that landed for it are
    one."""
    proofs: dict[str, LandedRecord] = {}
    for order in orders:
        for entry in (await bus.named([keys.LANDED(order)])).values():
            proof = keys.LANDED.read(entry.value, entry.key)
            if proof.branch == branch:
                proofs[proof.by or proof.order] = proof
    return [proof.order for proof in proofs.values()]


async def _proof(bus: Bus, order: str, branch: str) -> LandedRecord:
    entries = await bus.named([keys.LANDED(order)])
    proofs = [keys.LANDED.read(entry.value, entry.key) for entry in entries.values()]
    proofs = [proof for proof in proofs if branch in ("", proof.branch)]
    if not proofs:
        where = f"on {branch}" if branch else "on any branch"
        raise NotFound(f"{order} has not landed {where}", hint="`treadle land explain ORDER`")
    if len(proofs) > 1:
        on = ", ".join(proof.branch for proof in proofs)
        raise ConfigError(f"{order} has landed on {on}", hint="say which: --branch NAME")
    return proofs[0]


async def _spec(bus: Bus, record: TrainRecord, proofs: list[LandedRecord], agent: str) -> Spec:
    what = ", ".join(proof.order for proof in proofs)
    rows = [(*_sides(proof), (await client.get_order(bus, proof.order)).title) for proof in proofs]
    shown = "\n".join(f"git diff {base} {change}   # {title}" for base, change, title in rows)
    task = f"Take back what these orders have changed, and keep everything else, also what came later:\n\n{shown}"
    # Each is taken back as `git revert` does it, also when several landed in one commit.
    steps = [f"git diff --binary --full-index {change} {base} | git apply --3way" for base, change, _ in rows]
    return Spec(
        id=new_id(f"revert of {what} on {record.branch} at {proofs[0].commit}"),
        task=task,
        title=f"revert {what}: {rows[0][2]}",
        agent=agent or NULL,
        root=record.repository,
        setup="" if agent else " && ".join(steps),
        verify=record.verify if agent else "",
        land=record.branch,
        created=time.time(),
    )


def _sides(proof: LandedRecord) -> tuple[str, str]:
    """The commits between which lies what an order has changed."""
    before, after = (proof.base, proof.change) if proof.base and proof.change else (proof.on, proof.commit)
    if not before:
        raise NotFound(f"what {proof.order} changed is not known", hint="`git revert` takes it back by hand")
    return shlex.quote(before), shlex.quote(after)
