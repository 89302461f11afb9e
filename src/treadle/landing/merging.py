"""`fleet merge`: a train with one passenger, driven by who asked for it and stored nowhere; and landed work taken back.

It is built, checked and landed as a train does it, so the branch moves only to what was checked, and nothing is ever
taken back. It waits behind no other, sends nothing back, and without a check it lands what merges cleanly. Killed, it
has merged or it has not; which of the two is read from the branch when it is asked for again. The proof of the landing
is stored as a train's is, so that `land revert` knows it.
"""

import asyncio
import contextlib
import shlex
import time
from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from treadle.errors import ConfigError, NotFound, WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus, Stale, Write
from treadle.fleet.orders import new_id
from treadle.fleet.run.null import NAME as NULL
from treadle.io import scratch
from treadle.landing import queue, train
from treadle.landing.bench import Bench
from treadle.landing.sending import change_of
from treadle.landing.train import Train, name_of
from treadle.receipts.trace import Check
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Note, Order
from treadle.wire.fleet.train import Car, LandedRecord, LandingIntent, TrainRecord
from treadle.workspace import branch_merges, branch_moves, checkouts
from treadle.workspace.user_repository import UserRepository


class MergeStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one order's work."""

    order: str
    title: str = ""
    merged: bool = False
    commit: str = ""
    why: str = ""
    conflicts: tuple[str, ...] = ()
    kinds: dict[str, str] = {}
    """The kind of each conflict, in git's words: contents, add/add, modify/delete..."""


class Merging(msgspec.Struct, kw_only=True):
    """Orders that are merged one after the other. `state` is running, merged or stopped."""

    id: str
    orders: list[str]
    into: str
    verify: str
    anyway: bool
    by: str
    started: float
    state: str = "running"
    at: str = ""
    """The order that is being merged and verified now."""
    steps: list[MergeStep] = []
    problem: str = ""
    ended: float = 0.0


async def merge(
    bus: Bus, names: list[str], into: str, *, verify: str = "", by: str = "", anyway: bool = False
) -> list[MergeStep]:
    """Merge the work of these orders, in this order, into the branch that is checked out in `into`. `anyway`: also what
    changes files that other programs obey."""
    user = await asyncio.to_thread(checkouts.around, into)
    await asyncio.to_thread(branch_moves.recover, user)
    branch = await asyncio.to_thread(checkouts.branch_here, user)
    steps: list[MergeStep] = []
    for name in names:
        order = await client.get_order(bus, name)
        step = await _merge_one(bus, order, user, branch, verify, by, anyway)
        steps.append(replace(step, title=order.title))
        if not step.merged:
            break
    return steps


async def _merge_one(
    bus: Bus, order: Order, user: UserRepository, branch: str, verify: str, by: str, anyway: bool
) -> MergeStep:
    if order.state != "done":
        return MergeStep(order=order.id, why=f"it is {order.state}, so there is nothing to merge")
    if not order.result.get("commit"):
        return MergeStep(order=order.id, merged=True, why="it changed nothing")
    spec, change = await client.get_spec(bus, order.id), await change_of(bus, order, anyway=anyway)
    record = TrainRecord(
        repository=user.top,
        branch=branch,
        verify=verify,
        setup=spec.setup,
        policy="serial",
        queue=(replace(change, verify=""),),  # who merges has chosen the check
    )
    with scratch.directory("merging") as directory:
        bench = await asyncio.to_thread(Bench, "", user, branch, place=directory)
        bench.by_hand = True
        passenger = Passenger(bus, record, bench, by)
        try:
            await passenger.run(lambda found: found.paused is not None or not found.queue)
        except WorkspaceError as error:
            return MergeStep(order=order.id, why=str(error))
        return await asyncio.to_thread(passenger.outcome, order.id, change.commit)


class Passenger(Train):
    """A train that exists for one order, in this process only."""

    def __init__(self, bus: Bus, record: TrainRecord, bench: Bench, by: str) -> None:
        name = name_of(bench.user.common, record.branch)  # of the train that this branch has, or could have
        super().__init__(bus, name, record, bench=bench)
        self.by = by
        self.landed_as = ""

    async def run(self, until: Callable[[TrainRecord], bool]) -> TrainRecord:
        try:
            while not until(self.record):
                if not await self.step():
                    await self.wait()
            return self.record
        finally:
            await self._keep_checks([])

    def outcome(self, order: str, work: str) -> MergeStep:
        """What became of it."""
        if self.landed_as:
            behind = f"the files of {', '.join(self._behind)} were changed meanwhile and are behind the branch"
            return MergeStep(order=order, merged=True, commit=self.landed_as, why=behind if self._behind else "")
        if self.record.paused is not None:
            return MergeStep(order=order, why=self.record.paused.what)
        (out,) = self.record.left_out
        if out.kind == "there":
            return MergeStep(order=order, merged=True, commit=work, why="it is on the branch already")
        if out.kind == "red":
            last = out.output.splitlines()[-1:] or [""]
            why = f"{self.record.verify} fails with it, so the branch was left as it is: {last[0]}"
            return MergeStep(order=order, why=why)
        if out.kind == "conflict":
            found = self.bench.store.merge(self.record.tip, work)
            why = "it conflicts with what is there; its work is kept: resolve by hand or send it back"
            return MergeStep(order=order, why=why, conflicts=found.conflicts, kinds=branch_merges.kinds(found.messages))
        return MergeStep(order=order, why=out.why)

    # What is different from a train that is stored...

    async def _store(self, record: TrainRecord, *more: Write) -> None:
        self.record = record

    async def _stop(self, what: str) -> None:
        self.record = replace(self.record, paused=Note(at=time.time(), by=self.by, what=what))

    async def _stop_for(self, error: WorkspaceError) -> None:
        await self._stop(str(error))

    async def _without_check(self) -> bool:
        return False

    async def _help(self) -> bool:
        return False

    async def _recover(self) -> bool:
        """Only what is on its way counts: wherever another has moved the branch to meanwhile, it is built there."""
        intent, tip = self.record.landing, await asyncio.to_thread(self.bench.tip)
        if intent is not None and await asyncio.to_thread(self.bench.contains, intent.new):
            await self._keep_proof(intent)
            await self._note(intent.orders, intent.new)
            self.landed_as, self.record = intent.new, queue.moved(self.record, time.time())
            return True
        if tip == self.record.tip:
            return False
        self.record = replace(self.record, tip=tip, row=(), landing=None)
        return True

    async def _note_there(self, order: str) -> None:
        """The branch has it: by a merge that was killed before it could say so, or by a person with git."""
        found = await asyncio.to_thread(self._landing_of, order)
        if found is not None:
            await self._keep_proof(found)
        await super()._note_there(order)

    def _landing_of(self, order: str) -> LandingIntent | None:
        words = ("log", "--first-parent", "-1", "--format=%H %T %P", f"--grep=^Order: {order}$", self.bench.ref)
        named = self.bench.user.run(*words).stdout.decode().split()
        if len(named) < 3:
            return None
        return LandingIntent(old=named[2], new=named[0], tree=named[1], orders=(order,))

    async def _keep_proof(self, intent: LandingIntent) -> None:
        for order in intent.orders:
            if await self.bus.get(keys.LANDED(order, self.name), latest=True) is None:
                with contextlib.suppress(Stale):
                    await self.bus.batch(await self._proofs(0, order, intent, self.bench.user.top))

    async def _check(self, car: Car) -> Check:
        await asyncio.to_thread(
            self.bench.look, car.on, car.commit
        )  # what is in the way is reported before a long check
        if not self.record.verify:
            return Check(command="", exit_code=0, output_tail="")
        return await super()._check(car)


# Takes landed work back: by an order without an agent whose work is the reverse. It lands like anything else.


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
    (given,) = await client.submit(bus, [msgspec.structs.replace(spec, by=by or client.me())])
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
