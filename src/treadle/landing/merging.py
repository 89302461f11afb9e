"""`fleet merge`: a train with one passenger, driven by who asked for it and stored nowhere.

It is built, checked and landed as a train does it, so the branch moves only to what was checked, and nothing is ever
taken back. It waits behind no other, sends nothing back, and without a check it lands what merges cleanly. Killed, it
has merged or it has not; which of the two is read from the branch when it is asked for again. The proof of the landing
is stored as a train's is, so that `land revert` knows it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from treadle.errors import WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus, Stale, Write
from treadle.io import scratch
from treadle.landing import queue
from treadle.landing.bench import Bench
from treadle.landing.sending import change_of
from treadle.landing.train import Train, name_of, proof_key
from treadle.receipts.trace import Check
from treadle.wire.fleet.records import Note, Order
from treadle.wire.fleet.train import Car, LandingIntent, TrainRecord
from treadle.workspace import branch_moves, checkouts, merges
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
        repository=user.top, branch=branch, verify=verify, setup=spec.setup, policy="serial", queue=(change,)
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
                if not await self._step():
                    await self._wait()
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
            return MergeStep(order=order, why=why, conflicts=found.conflicts, kinds=merges.kinds(found.messages))
        return MergeStep(order=order, why=out.why)

    # What is different from a train that is stored...

    async def _store(self, record: TrainRecord, *more: Write) -> None:
        self.record = record

    async def _stop(self, what: str) -> None:
        self.record = replace(self.record, paused=Note(at=time.time(), by=self.by, what=what))

    def _until_resumed(self, error: WorkspaceError) -> str:
        return str(error)

    @property
    def _lacks_check(self) -> bool:
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
            if await self.bus.get(proof_key(order, self.name), latest=True) is None:
                with contextlib.suppress(Stale):
                    await self.bus.batch(await self._proofs(0, order, intent, self.bench.user.top))

    async def _check(self, car: Car) -> Check:
        await asyncio.to_thread(
            self.bench.look, car.on, car.commit
        )  # what is in the way is reported before a long check
        if not self.record.verify:
            return Check(command="", exit_code=0, output_tail="")
        return await super()._check(car)
