"""Carries a train's decisions out: for one branch of one repository, as long as there is anything to do. Checks are
orders; a lease keeps two processes from doing the same work.

The record is in the engine and is changed only by compare-and-set, and so is the branch. So any number of trains at
once, killed at any moment, do no harm: each reads again and decides again. A landing has three steps: the intent is
stored; the branch moves; the record says that it has, together with `landed.ORDER.TRAIN`, the proof.
After the first step the intent is only carried forward, so the one who comes next does the same or finds it done
(`queue.recovered`). What the record says about the branch is held against the branch before anything else is done.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import secrets
import shlex
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from treadle.errors import ConfigError, LocalError, NotFound, TreadleError, WorkspaceError, kind_of
from treadle.fleet import client, submission
from treadle.fleet.engine.bus import Bus, Stale, Write
from treadle.fleet.engine.controller import Controller, Drive, Lease
from treadle.fleet.orders import NULL, TRAIN, encode, new_id
from treadle.host import evidence
from treadle.io.process import table
from treadle.io.tasks import end_tasks
from treadle.landing import authorship, changes, queue, returned
from treadle.landing.bench import Bench, BuiltCar
from treadle.landing.forge.interface import ForgeRed, NotYet
from treadle.landing.queue import BuildCar, CarCheck, CheckCar, LandCar
from treadle.landing.sending import SendingBack, bring, change_of
from treadle.policy import patterns
from treadle.receipts.trace import Check
from treadle.sessions import telemetry
from treadle.verification.evidence import LEVELS
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import Require, Spec
from treadle.wire.fleet.records import Delay, Note, Order
from treadle.wire.fleet.train import (
    Boarding,
    Car,
    DriverRecord,
    LandedRecord,
    LandingIntent,
    LeftOut,
    QueuedChange,
    TrainRecord,
)
from treadle.workspace import branch_moves, checkouts, remotes
from treadle.workspace.branch_moves import BranchMoved
from treadle.workspace.remotes import Remote
from treadle.workspace.user_repository import UserRepository

# A check of a car as an order without an agent: on any node, with a receipt, and asked twice it is run once.

TRIES = 3
"""How often it is asked again when no verdict came: its node was lost, or an earlier train called it off."""


async def check(
    bus: Bus,
    bench: Bench,
    name: str,
    record: TrainRecord,
    car: Car,
    bring: Sequence[str],
    one: CarCheck,
    require: Require = "",
) -> tuple[Check, str]:
    """The verdict on this car, and the word for what it shows. The same commit, check and try have one verdict, no
    matter who asks for it and when."""
    await asyncio.to_thread(bench.lend, car.commit, record.tip)
    try:
        for number in range(TRIES):
            order = await _ended(bus, _spec(name, record, car, bring, one, number, require))
            if order.result.get("verified") is not None or order.state == "failed":
                break
        ok = order.result.get("verified") is True
        output = str(order.result.get("says") or "") or order.why
        done = Check(command=one.verify, exit_code=0 if ok else 1, output_tail=output)
        return done, str(order.result.get("evidence") or "")
    finally:
        await asyncio.to_thread(bench.take_back, car.commit)


def _spec(
    name: str, record: TrainRecord, car: Car, bring: Sequence[str], one: CarCheck, number: int, require: Require = ""
) -> Spec:
    may_change = queue.may_change(record, car.orders)
    key = "\0".join((name, car.on, car.commit, one.verify, one.setup, *may_change, str(car.reds), str(number)))
    key += f"\0{require}" if require else ""
    return Spec(
        id=new_id(f"check\0{key}"),
        task=f"Check {', '.join(car.orders)} on {record.branch} of {record.repository}",
        agent=NULL,
        root=record.repository,
        base=car.commit,
        verify=one.verify,
        setup=one.setup,
        network=one.network,
        bring=tuple(bring),
        judge=car.on,
        may_change=may_change,
        require=require,
        priority=9,
        by=TRAIN,
    )


async def _ended(bus: Bus, spec: Spec) -> Order:
    if any(each.alive and each.host != socket.gethostname() for each in await client.nodes(bus)):
        spec = await submission.send(bus, spec)  # a node on another machine may take it
    (given,) = await client.submit(bus, [spec])
    try:
        return await client.wait(bus, given.id)
    except asyncio.CancelledError:
        with contextlib.suppress(LocalError, TreadleError):  # it is not wanted any more
            await client.cancel(bus, given.id, why="its car was built again", by=TRAIN)
        raise


# Who works on a train: one process at a time, so that nothing is checked twice. The others watch.
#
# Only for the sake of work: whatever goes wrong here, two trains at once do no harm, because the branch and the
# record change by compare-and-set.

HELD_SECONDS = 6
RENEWED_SECONDS = 1.5
OVERDUE_SECONDS = 4.0 * HELD_SECONDS
"""Seconds without a change after which a lease counts as abandoned, even if the engine has not expired it."""


def driver_lease(bus: Bus, train: str) -> Lease:
    found = table.look(os.getpid())
    mine = DriverRecord(
        host=socket.gethostname(),
        pid=os.getpid(),
        start=found.start if found is not None else 0,
        token=secrets.token_hex(8),
    )
    key, value = keys.DRIVES(train), encode(mine)
    return Lease(bus, key, lambda: value, ttl=HELD_SECONDS, overdue=OVERDUE_SECONDS, gone=_is_gone)


def _is_gone(holder: bytes) -> bool:
    """Whether it was given up, or who holds it was killed on this machine: then no one waits until it expires."""
    known = keys.DRIVES.read(holder, "drives")
    if not known.pid:
        return True  # as 0.2.0 leaves it
    return known.host == socket.gethostname() and not table.lives(known.pid, known.start)


def happened_between(before: TrainRecord, after: TrainRecord) -> list[str]:
    """What another process has done in between, in words."""
    known, now = changes.table(before), changes.table(after)
    lines = [f"landed   {each.order}" for each in before.queue if each.order not in now]
    for change in changes.each(after):
        if change.kind and change != known.get(change.order) and (change.by or not change.rides):
            lines.append(f"{change.state:8} {change.order}: {change.words if change.rides else change.why}")
    return lines


Say = Callable[[str], None]
BACK_SECONDS = 0.5
"""Seconds between two looks at the orders that help."""
LOOK_SECONDS = 2.0
"""Seconds between two looks at the branch and the record while no message arrives."""
OUTPUT = 4000
NOTHING = "nothing"
"""In place of the word for what a check shows, where none is known."""


def name_of(repository: str, branch: str) -> str:
    """The name of the train of this branch: the same for everyone who can reach the repository by this path."""
    return hashlib.blake2b(f"{repository}\0{branch}".encode(), digest_size=8).hexdigest()


async def load(bus: Bus, name: str) -> tuple[TrainRecord, int]:
    entry = await bus.get(keys.TRAIN(name), latest=True)
    if entry is None:
        raise NotFound(f"there is no train {name}", hint="`treadle land ls` lists them")
    return keys.TRAIN.read(entry.value, entry.key), entry.revision


async def trains(bus: Bus) -> dict[str, TrainRecord]:
    """All trains, by name."""
    found = await bus.named([keys.TRAIN()])
    return {keys.TRAIN.name(key): keys.TRAIN.read(entry.value, key) for key, entry in sorted(found.items())}


async def change(bus: Bus, name: str, how: Callable[[TrainRecord], TrainRecord]) -> TrainRecord:
    """Change a train's record, again and again until no one else did meanwhile."""
    while True:
        before, revision = await load(bus, name)
        after = how(before)
        if after == before:
            return before
        with contextlib.suppress(Stale):
            await bus.put(keys.TRAIN(name), encode(after), expect=revision)
            return after


async def steer(bus: Bus, name: str, pause: Note | None) -> None:
    """Let a train stand still, or go on at once."""
    await change(bus, name, lambda found: replace(found, paused=pause, delay=None))


async def ensure(bus: Bus, root: str, branch: str, *, verify: str = "", setup: str = "", slots: int = 0) -> str:
    """The name of the train of this branch, made if there is none. New settings replace the old ones."""
    user = await asyncio.to_thread(checkouts.repository, root)
    branch = branch or await asyncio.to_thread(checkouts.branch_here, user)
    name = name_of(await asyncio.to_thread(where, user, branch), remotes.split(branch)[1])
    if await bus.get(keys.TRAIN(name), latest=True) is None:
        made = TrainRecord(repository=user.top, branch=branch)
        with contextlib.suppress(Stale):
            await bus.put(keys.TRAIN(name), encode(made), expect=0)
    await change(bus, name, lambda record: queue.configured(record, verify, setup, slots))
    return name


def where(user: UserRepository, branch: str) -> str:
    """What all who land on a branch agree on: the repository's path, or the address of its remote. Raises where there
    is no such branch or remote."""
    remote, own = remotes.split(branch)
    if remote:
        return Remote(user, remote).address
    branch_moves.tip(user, f"refs/heads/{own}")
    return user.common


async def check_with(bus: Bus, name: str, verify: str, setup: str, by: str) -> TrainRecord:
    """Give the train this check if it has none."""
    return await change(
        bus, name, lambda found: found if found.verify else queue.configured(found, verify, setup, 0, by)
    )


async def board(
    bus: Bus,
    name: str,
    orders: Iterable[str],
    *,
    anyway: bool = False,
    no_help: bool = False,
    once: bool = False,
    verify: str = "",
    may_change: Sequence[str] = (),
) -> list[str]:
    """Queue finished orders. Returns those that have nothing to land; raises for one that cannot land.

    With `once`, what the train has, had or landed stays as it is: for those who cannot know whether they did it before.
    `verify`: their own check, in place of what they were submitted with. `may_change`: files of their judge that they
    may change, too, for someone who did not write them has looked.
    """
    idle = []
    for order_id in orders:
        order = await client.get_order(bus, order_id)
        if order.state != "done":
            raise LocalError(f"the order {order_id} is {order.state}, so it has nothing to land")
        if not order.result.get("commit"):
            idle.append(order_id)
            continue
        made = await change_of(bus, order, anyway=anyway)
        allows = (*made.may_change, *map(patterns.escape, may_change))
        await _join(bus, name, replace(made, verify=verify or made.verify, no_help=no_help, may_change=allows), once)
    return idle


async def _join(bus: Bus, name: str, made: QueuedChange, once: bool) -> None:
    while True:
        record, revision = await load(bus, name)
        # The record first: what leaves its queue by landing has its proof from that moment on.
        if once and (made.order in changes.table(record) or await bus.get(keys.LANDED(made.order, name), latest=True)):
            return
        after = queue.joined(record, made)
        if after == record:
            return
        with contextlib.suppress(Stale):
            await bus.put(keys.TRAIN(name), encode(after), expect=revision)
            return


class CarVerdict(NamedTuple):
    """What the checks of a car say; `word` is the best of what they show, and `lacks` why that is too little."""

    car: Car
    check: Check
    word: str = ""
    lacks: str = ""


class Train(Drive):
    """One process at work on a train. `say` hears each step, for a person."""

    def __init__(
        self,
        bus: Bus,
        name: str,
        record: TrainRecord,
        *,
        root: str = "",
        say: Say = lambda text: None,
    ) -> None:
        """`root`: a clone of the same remote on this machine, instead of the one that the record names."""
        self.bus = bus
        self.name = name
        self.say = say
        user = checkouts.repository(root if root and ":" in record.branch else record.repository)
        self.bench = Bench(name, user, record.branch, forge=record.forge, token=record.forge_token)
        self.sending = SendingBack(bus, name, self.bench, say)
        self.lease = driver_lease(bus, name)
        self.record = record
        self.revision = 0
        self._until: Callable[[TrainRecord], bool] = lambda found: False
        self._checks: dict[str, asyncio.Task[CarVerdict]] = {}
        self._behind: list[str] = []
        self._waits = ""
        self._found = "", ("", "")
        """The project's own check, as this commit has it."""
        self._looked = 0.0

    async def run(self, until: Callable[[TrainRecord], bool]) -> TrainRecord:
        """Work until `until` is true of the record; while another process works on this train, watch it."""
        self._until = until
        try:
            await self.carry_on()
            return self.record
        finally:
            await self.lease.leave()
            await self._keep_checks([])

    @property
    def delay(self) -> Delay | None:
        return self.record.delay

    async def set_delay(self, delay: Delay | None) -> None:
        await change(self.bus, self.name, lambda found: replace(found, delay=delay))
        if delay is not None:
            seconds = max(0.0, delay.next - time.time())
            self.say(f"delayed  {delay.why}; tried again in {seconds:.0f} s")

    async def read(self) -> None:
        before, self.drives = self.record, await self.lease.taken(RENEWED_SECONDS)
        self.record, self.revision = await load(self.bus, self.name)
        if not self.drives:
            await self._keep_checks([])
            for line in happened_between(before, self.record):
                self.say(line)

    def over(self) -> bool:
        return self._until(self.record)

    async def wait(self) -> None:
        if self._checks:
            await asyncio.wait(self._checks.values(), timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(LOOK_SECONDS / 10)

    # One step...

    async def step(self) -> bool:
        if (wanted := (self.record.forge, self.record.forge_token)) != self.bench.moved_by:
            self.bench.move_by(*wanted)
        if await self._recover():
            return True
        if self.record.landing is not None and self.record.paused is None:
            await self._carry_forward()
            return True
        if self.record.queue and self.record.paused is None and await self._without_check():
            return True
        found = queue.steps(self.record)
        await self._keep_checks(found)
        if await self._take_verdict():
            return True
        for step in found:
            if isinstance(step, LandCar):
                return await self._begin_landing(step)
            if isinstance(step, BuildCar):
                await self._build(step)
                return True
        return await self._help()

    async def _without_check(self) -> bool:
        """Take the project's own check where no one gave the branch one, and stop where nothing checks a change.
        Returns whether that changed the record."""
        if not self.record.verify or self.record.verify_by == "project":
            if self._found[0] != self.record.tip:
                self._found = self.record.tip, await asyncio.to_thread(self.bench.project_check, self.record.tip)
            found = self._found[1]
            if found[0] and found != (self.record.verify, self.record.setup):
                given = self.record.setup if not self.record.verify else ""
                bare, by = replace(self.record, setup=""), "person" if given else "project"
                await self._store(queue.configured(bare, found[0], given or found[1], 0, by=by))
                return True
        if queue.lacks_check(self.record):
            await self._stop(f"no check is set for {self.record.branch}: `treadle land --verify COMMAND` gives it one")
            return True
        return False

    async def _help(self) -> bool:
        """See to what was sent back. Looks at its orders now and then, and finds helpers at once."""
        if self.record.paused is not None or not self.record.back:
            return False
        if returned.waiting(self.record) is None and time.monotonic() < self._looked + BACK_SECONDS:
            return False
        self._looked = time.monotonic()
        after = await self.sending.step(self.record)
        if after is not None:
            await self._store(after)
        return after is not None

    async def _store(self, record: TrainRecord, *more: Write) -> None:
        """Store what was decided. Work that is queued meanwhile does not undo it: where many orders end, no car would
        ever be built before the next one comes."""
        while True:
            try:
                await self.bus.batch([Write(keys.TRAIN(self.name), encode(record), self.revision), *more])
                break
            except Stale:
                newer, revision = await load(self.bus, self.name)
                merged = queue.rejoined(self.record, newer, record)
                if merged is None or revision == self.revision:
                    raise
                self.record, self.revision, record = newer, revision, merged
        for out in record.left_out:
            if out not in self.record.left_out and out.kind != "there":
                last = out.output.splitlines()[-1:]
                self.say(f"left out {out.order}: {out.why}{f': {last[0]}' if last else ''}")
                self._report(out.order, error=out.kind)
                if not any(each.order == out.order for each in record.back):  # else it goes to who can help
                    what = f"did not land on {self.record.branch}: {out.why}"
                    await client.note_result(self.bus, out.order, what, {"not_landed": out.why}, by="train")

    async def _stop(self, what: str) -> None:
        """The train stands still until a person has seen to it; what waits in it says so too."""
        await self._store(replace(self.record, paused=Note(at=time.time(), by="train", what=what)))
        self.say(f"stopped  {what}")
        for change in self.record.queue:
            note = f"waits to land on {self.record.branch}: {what}"
            await client.note_result(self.bus, change.order, note, {}, by="train")

    async def _recover(self) -> bool:
        """Hold the record against the branch. Returns whether that changed it."""
        intent, before = self.record.landing, self.record.tip
        tip = await asyncio.to_thread(self.bench.branch.tip)
        named = [commit for commit in (before, intent.new if intent else "") if commit]
        has = {commit: await asyncio.to_thread(self.bench.branch.contains, commit) for commit in named}
        after = queue.recovered(self.record, tip, has, time.time())
        if after == self.record:
            return False
        writes: list[Write] = []
        if intent is not None and has[intent.new]:
            await self._note(intent.orders, intent.new)
            await self._write_authorship(intent)
            for number, order in enumerate(intent.orders, self.record.landed + 1):
                writes += await self._proofs(number, order, intent)
        await self._store(after, *writes)
        if writes and intent is not None:
            behind = f"; the files of {', '.join(self._behind)} did not follow" if self._behind else ""
            self.say(f"landed   {', '.join(intent.orders)} as {intent.new[:10]}{behind}")
            for order in intent.orders:
                self._report(order, commit=intent.new)
            await self._forget(intent)
        elif before and tip != before and all(tip != car.commit for car in self.record.row):
            self.say(
                f"moved    someone else moved {self.record.branch} to {tip[:10]}; what was built on it is built again"
            )
        return True

    def _report(self, order: str, *, commit: str = "", error: str = "") -> None:
        queued = self._queued(order)
        since = queued.at if queued is not None else 0.0
        telemetry.landed(order, self.record.branch, since, commit=commit, error=error)

    def _queued(self, order: str) -> QueuedChange | None:
        return next((each for each in self.record.queue if each.order == order), None)

    async def _proofs(self, seq: int, order: str, intent: LandingIntent) -> list[Write]:
        """The write of the proof. An order that landed here before does so again only with another commit.

        Work that had been sent back is proof for the order that it all began with, too.
        """
        change = self._queued(order)
        proof = LandedRecord(
            order=order,
            train=self.name,
            branch=self.record.branch,
            commit=intent.new,
            tree=intent.tree,
            seq=seq,
            at=time.time(),
            on=intent.old,
            verify=intent.verify,
            receipt=change.receipt if change is not None else "",
            change=change.commit if change is not None else "",
            base=change.base if change is not None else "",
        )
        proofs = [proof]
        if change is not None and change.first:
            proofs.append(replace(proof, order=change.first, by=order))
        writes = []
        for each in proofs:
            known = await self.bus.get(keys.LANDED(each.order, self.name), latest=True)
            revision = known.revision if known is not None else 0
            writes.append(Write(keys.LANDED(each.order, self.name), encode(each), revision))
        return writes

    async def _note(self, orders: Sequence[str], commit: str) -> None:
        """Note it with each order, before it is recorded: killed in between, it is noted twice and never not at all."""
        for order in orders:
            change = self._queued(order)
            landed = {"commit": commit, "branch": self.record.branch}
            for name in filter(None, (order, change.first if change is not None else "")):
                if (await client.get_order(self.bus, name)).result.get("landed") != landed:
                    by = f", by {order}" if name != order else ""
                    what = f"landed on {self.record.branch} as {commit[:12]}{by}"
                    await client.note_result(self.bus, name, what, {"merged": commit, "landed": landed}, by=TRAIN)

    async def _write_authorship(self, intent: LandingIntent) -> None:
        """Before it is recorded, too: what is there is not written again. It holds no landing up."""
        try:
            if self.record.notes:
                await asyncio.to_thread(authorship.write, self.bench.user, intent.old, intent.new)
        except WorkspaceError as error:
            self.say(f"the notes of authorship for {intent.new[:10]} were not written: {error}")

    async def _forget(self, intent: LandingIntent) -> None:
        await asyncio.to_thread(self.bench.forget, [*intent.orders, intent.new])
        for order in intent.orders:
            change = self._queued(order)
            if change is not None and change.first:
                base = str((await client.get_order(self.bus, order)).result.get("base", ""))
                await asyncio.to_thread(self.bench.take_back, base)
        await self._sweep(intent.new)

    async def _sweep(self, tip: str) -> None:
        """Remove what the branch makes needless: commits that were lent, and the branches of orders that landed. One
        that is made only now, by a node that was slow, goes with the next landing."""
        for ref in await asyncio.to_thread(self.bench.merged_refs, tip):
            if ref.startswith("refs/heads/"):
                with contextlib.suppress(NotFound):
                    if not (await client.get_order(self.bus, ref.rpartition("/")[2])).result.get("landed"):
                        continue
                    await asyncio.to_thread(self.bench.remove_ref, ref)
            elif re.fullmatch(r"refs/treadle/[0-9a-f]{40,64}", ref):
                await asyncio.to_thread(self.bench.remove_ref, ref)

    async def _note_there(self, order: str) -> None:
        """Someone else brought it onto the branch: a person, with git."""
        if not (await client.get_order(self.bus, order)).result.get("merged"):
            what = f"{self.record.branch} has it already"
            await client.note_result(self.bus, order, what, {"merged": self.record.tip}, by=TRAIN)

    # Building...

    async def _build(self, step: BuildCar) -> None:
        chosen = [each for each in self.record.queue if each.order in step.orders]
        after = self.record
        for each in list(chosen):
            try:
                if await asyncio.to_thread(self.bench.branch.contains, each.commit):
                    chosen.remove(each)
                    await self._note_there(each.order)
                    after = queue.left_out(after, self._out(each.order, "there", "the branch has it already"))
                else:
                    await self._bring(each)
            except TreadleError as error:
                if kind_of(error) == "transient":
                    raise
                chosen.remove(each)
                after = queue.left_out(after, self._out(each.order, "refused", str(error)))
        made = await self._built(chosen, step)
        for order, (kind, why) in made.refused.items():
            after = queue.left_out(after, self._out(order, kind, why, made.conflicts.get(order, ())))
        after = queue.built(after, made.car, made.blocked, step.on)
        if after == self.record:
            raise LocalError(f"the train {self.name} cannot build {', '.join(step.orders)}")
        await self._store(after)

    async def _built(self, chosen: Sequence[QueuedChange], step: BuildCar) -> BuiltCar:
        """The car. A change that git cannot handle is left out, and does not stop the others."""
        try:
            return await asyncio.to_thread(
                self.bench.build,
                chosen,
                step.on,
                self.record.tip,
                self.record.verify,
                apart=step.apart,
                require=self.record.require,
            )
        except WorkspaceError as error:
            if kind_of(error) == "transient":
                raise
            if len(chosen) > 1:
                return await self._built(chosen[:1], step)
            return BuiltCar(car=None, refused={each.order: ("refused", str(error)) for each in chosen})

    def _out(self, order: str, kind: str, why: str, files: tuple[str, ...] = ()) -> LeftOut:
        return msgspec.convert({"order": order, "kind": kind, "why": why, "at": time.time(), "files": files}, LeftOut)

    async def _bring(self, change: QueuedChange) -> None:
        await bring(self.bus, self.bench, change.order, change.commit)

    # Checking...

    async def _keep_checks(self, found: Sequence[queue.TrainStep]) -> None:
        """Start the checks that are wanted, and end those that no longer are."""
        wanted = {step.car.commit: step.car for step in found if isinstance(step, CheckCar)}
        for commit, task in list(self._checks.items()):
            if commit not in wanted:
                await end_tasks(task)
                del self._checks[commit]
        for commit, car in wanted.items():
            if commit not in self._checks:
                again = " again" if car.reds else " alone" if car.apart else ""
                self.say(f"checks   {', '.join(car.orders)}{again}, on {car.on[:10]}")
                self._checks[commit] = asyncio.create_task(self._check(car))

    async def _check(self, car: Car) -> CarVerdict:
        """The branch's check and those of all members: the first that fails is the verdict. What one of them shows
        counts for the car."""
        record = self.record
        specs = [await client.get_spec(self.bus, order) for order in car.orders]
        bring = tuple(dict.fromkeys(name for spec in specs for name in spec.bring))
        done = Check(command="", exit_code=None, output_tail="nothing checks it")
        may_change = queue.may_change(record, car.orders)
        needed, words = (
            queue.required(record, car.orders, await asyncio.to_thread(self.bench.required, car.on)),
            [NOTHING],
        )
        for one in queue.checks(record, car.orders):
            if record.checks_on == "nodes":
                done, word = await check(self.bus, self.bench, self.name, record, car, bring, one, needed)
                words.append(word or NOTHING)
            else:
                done = await self.bench.check(
                    car.commit, *one[:2], bring, on=car.on, may_change=may_change, network=one[2], prove=bool(needed)
                )
                if done.evidence:
                    words.append(done.evidence.word)
                    receipts = [each.receipt for each in record.queue if each.order in car.orders and each.receipt]
                    await asyncio.to_thread(evidence.keep_check, done, receipts)
            if not done.ok:
                return CarVerdict(car, done)
        best = max(words, key=lambda word: LEVELS.index(word) if word in LEVELS else -1)
        return CarVerdict(car, done, best, queue.too_little(record, car, best, needed))

    async def _take_verdict(self) -> bool:
        for commit, task in list(self._checks.items()):
            if not task.done():
                continue
            if task.exception() is not None:  # such as a full disk: it is begun again
                del self._checks[commit]
            car, check, word, lacks = task.result()
            output = check.output_tail.strip()[-OUTPUT:]
            if check.command != self.record.verify:
                output = f"`{check.command}`, the check of the order itself:\n{output}"
            if check.ok and lacks:
                after = queue.shows_too_little(self.record, car, lacks, word, time.time())
            else:
                after = queue.judged(self.record, commit, check.ok, time.time(), output)
            await self._store(after)
            del self._checks[commit]
            return True
        return False

    # Landing...

    async def _begin_landing(self, step: LandCar) -> bool:
        """Store the intent, unless a checkout of the branch stands in the way: then the train stops and says why."""
        try:
            await asyncio.to_thread(self.bench.branch.look, step.car.on, step.car.commit)
        except WorkspaceError as error:
            await self._stop_for(error)
            return True
        await self._store(queue.started_landing(self.record))
        return True

    async def _stop_for(self, error: WorkspaceError) -> None:
        """What does not pass by itself needs a person."""
        if kind_of(error) == "transient":
            raise error
        await self._stop(f"{error}; then `treadle land resume {self.name}`")

    async def _carry_forward(self) -> None:
        """Move the branch to what was intended. Whether that happened is read from the branch afterwards.

        The intent stays also when a checkout stands in the way: another train may be carrying it out.
        """
        intent = self.record.landing
        assert intent is not None
        try:
            self._behind = await asyncio.to_thread(self.bench.branch.move, intent.old, intent.new)
        except NotYet as error:
            if self._waits != str(error):
                self._waits = str(error)
                self.say(f"waits    {error}")
            await asyncio.sleep(error.seconds)
        except BranchMoved:
            return
        except ForgeRed as error:
            await self._withdraw(error)
        except WorkspaceError as error:  # such as a checkout that was changed since it was looked at
            await self._stop_for(error)

    async def _withdraw(self, error: ForgeRed) -> None:
        """The forge's verdict is red: its request is closed first, so that no one can carry the intent out any more."""
        intent = self.record.landing
        assert intent is not None
        if await asyncio.to_thread(self.bench.give_up, intent.new):
            await self._store(queue.refused_there(self.record, str(error), error.output[-OUTPUT:], time.time()))


# Lands finished work by itself: runs the trains of this machine's repositories while its node is the scheduler.
#
# An order that names a branch (`land`) leaves `boards.ORDER` when it is done, stored together with its end. The
# conductor queues it in the train of that branch and then removes the mark; killed in between, it is queued again,
# which changes nothing. Two conductors at once do no harm, as trains do none.

log = logging.getLogger(__name__)

IDLE_SECONDS = 1.0
"""Seconds between two looks for work that is to be landed."""


class Conductor(Controller):
    def idle_seconds(self) -> float:
        return IDLE_SECONDS

    async def take_up(self, bus: Bus) -> None:
        await self._take_up(bus)
        await self._steer(bus)

    async def _take_up(self, bus: Bus) -> None:
        """Queue what has ended and is to land in a repository of this machine."""
        names: dict[tuple[str, str], str] = {}
        for _, entry in sorted((await bus.named([keys.BOARDS()])).items()):
            mark = await client.read_left(bus, entry, keys.BOARDS)
            if mark is None or not os.path.isdir(mark.root):
                continue  # the repository is on another machine
            try:
                await self._board(bus, mark, names)
            except TreadleError as error:
                if kind_of(error) == "transient":
                    raise
                what = f"cannot land on {mark.branch}: {error}"
                await client.note_result(bus, mark.order, what, {"not_landed": str(error)}, by="train")
            await client.done_with(bus, entry)

    async def _board(self, bus: Bus, mark: Boarding, names: dict[tuple[str, str], str]) -> None:
        """Queue it, with its own check.

        `names` has the trains that were found in this round: git is asked once for many orders of one branch.
        """
        spec = await client.get_spec(bus, mark.order)
        if spec.by == TRAIN and spec.retry_of:
            return  # the train itself takes up what helps it
        if not mark.again and (await client.get_order(bus, mark.order)).result.get("not_landed"):
            return  # that was settled; an engine that was killed may show a mark again that had been removed
        if (name := names.get((mark.root, mark.branch), "")) == "":
            name = names[mark.root, mark.branch] = await ensure(bus, mark.root, mark.branch)
        # Its mark may only not have been removed yet.
        await board(bus, name, [mark.order], anyway=mark.anyway, once=not mark.again, verify=mark.verify)

    async def _steer(self, bus: Bus) -> None:
        """Pause and resume as people ask for who may not write a train's record themselves."""
        for key, entry in (await bus.named([keys.STEERS()])).items():
            if (request := await client.read_left(bus, entry, keys.STEERS)) is None:
                continue
            note = Note(at=time.time(), by=request.by, what=request.pause) if request.pause else None
            with contextlib.suppress(NotFound):
                await steer(bus, keys.STEERS.name(key), note)
            await client.done_with(bus, entry)

    async def due(self, bus: Bus) -> Mapping[str, Delay | None]:
        return {
            name: record.delay
            for name, record in (await trains(bus)).items()
            if (record.queue or record.back or record.landing is not None)
            and record.paused is None
            and os.path.isdir(record.repository)
        }

    async def drive(self, bus: Bus, name: str) -> None:
        """Work on one train until it is empty or stands still."""
        record, _ = await load(bus, name)
        train = await asyncio.to_thread(Train, bus, name, record, say=lambda text: log.info("%s %s", name, text))
        await train.run(lambda found: found.paused is not None or not found.queue and not found.back)

    async def set_delay(self, bus: Bus, name: str, delay: Delay) -> None:
        await change(bus, name, lambda found: replace(found, delay=delay))

    async def stop(self, bus: Bus, name: str, error: Exception) -> None:
        note = Note(at=time.time(), by="train", what=str(error))
        await change(bus, name, lambda found: replace(found, paused=note))


# Takes landed work back: by an order without an agent whose work is the reverse. It lands like anything else.


async def revert(bus: Bus, orders: list[str], *, branch: str = "", agent: str = "", by: str = "") -> tuple[str, str]:
    """Submit the order that takes these back, and return its train and its id. With an agent, that one does it."""
    found = [await _proof(bus, order, branch) for order in orders]
    names = {proof.train for proof in found}
    if len(names) != 1:
        raise ConfigError("these have landed on different branches", hint="revert those of one branch at a time")
    (name,) = names
    if where := next((proof.repository for proof in found if proof.repository), ""):
        await ensure(bus, where, found[0].branch)  # merged by hand: the branch may have no train yet
    record, _ = await load(bus, name)
    if not record.verify:
        hint = f"`treadle land set {name} --verify COMMAND`, then once more"
        raise ConfigError(f"no check is set for {record.branch}, and nothing lands without one", hint=hint)
    latest_first = sorted(found, key=lambda proof: (proof.at, proof.seq), reverse=True)
    spec = await _reverting(bus, record, latest_first, agent)
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
        raise ConfigError(f"{order} has landed on {on}", hint="name it: --branch NAME")
    return proofs[0]


async def _reverting(bus: Bus, record: TrainRecord, proofs: list[LandedRecord], agent: str) -> Spec:
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
        raise NotFound(f"the changes of {proof.order} are unknown", hint="`git revert` reverts it by hand")
    return shlex.quote(before), shlex.quote(after)
