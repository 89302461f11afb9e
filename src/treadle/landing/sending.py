"""Sends changes back that were red or in conflict: makes the orders that help, and takes up what came of them.

Whatever is repeated after a kill changes nothing: the orders have ids that follow from what they are about.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from treadle.errors import LocalError, NotFound, TreadleError
from treadle.fleet import client, results, submission
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.orders import NULL, PERSON, TRAIN, new_id
from treadle.landing import queue, returned
from treadle.landing.bench import Bench
from treadle.landing.returned import Helper, HelpStart
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import NOT_HERE, Order
from treadle.wire.fleet.train import QueuedChange, ReturnedChange, TrainRecord

ANSWER_SECONDS = 14 * 86400.0
TITLES = 8
"""How many orders a helper is told about."""
FOLLOWED = 20


class SendingBack:
    def __init__(self, bus: Bus, name: str, bench: Bench, say: Callable[[str], None]) -> None:
        self.bus = bus
        self.name = name
        self.bench = bench
        self.say = say

    async def step(self, record: TrainRecord) -> TrainRecord | None:
        """The record after one thing was done; None when nothing is to be done now."""
        for each in record.back:
            if await self._has_landed(each):  # its work came onto the branch another way
                await call_off(self.bus, [each])
                return returned.closed(record, each)
        if (entry := returned.waiting(record)) is not None:
            try:
                return await self._send(record, entry)
            except Unreachable:
                raise
            except TreadleError as error:  # its order was removed, or its commits: that must not stop the others
                await self._give_up(entry, f"{entry.why}; no one can be asked to help: {error}")
                return returned.closed(record, entry)
        for entry in record.back:
            if not entry.by:
                continue  # it waits for another's help in the same files
            order = await self._latest(entry.by)
            if order.ended:
                return await self._taken_up(record, replace(entry, by=order.id), order)
        return None

    async def _has_landed(self, entry: ReturnedChange) -> bool:
        found = await self.bus.get(keys.LANDED(entry.first, self.name), latest=True)
        return found is not None and keys.LANDED.read(found.value, found.key).at > entry.at

    async def _latest(self, name: str) -> Order:
        """An order, or its latest retry: a person may have tried it again."""
        order = await client.get_order(self.bus, name)
        for _ in range(FOLLOWED):
            if not order.retried_as:
                break
            order = await client.get_order(self.bus, order.retried_as)
        return order

    # There...

    async def _send(self, record: TrainRecord, entry: ReturnedChange) -> TrainRecord:
        first = await client.get_spec(self.bus, entry.first)
        to = returned.next_helper(entry, first, record.reconciler)
        if to is None:
            await self._give_up(entry, entry.why)
            return returned.closed(record, entry)
        start = await self._start(entry)
        by = await self._make(record, entry, first, to, start)
        self.say(f"back     {entry.first} to {_named(to)} as {by}: {entry.why}")
        key = "asks" if to == "person" else "sent_back"
        what = f"did not land on {record.branch}, went to {_named(to)} as {by}: {entry.why}"
        await client.note_result(self.bus, entry.first, what, {key: by}, by=TRAIN)
        return returned.sent(record, entry, to, by, start.tip)

    async def _give_up(self, entry: ReturnedChange, why: str) -> None:
        await client.note_result(self.bus, entry.first, f"did not land: {why}", {"not_landed": why}, by=TRAIN)

    async def _start(self, entry: ReturnedChange) -> HelpStart:
        await bring(self.bus, self.bench, entry.order, entry.commit)
        tip = await asyncio.to_thread(self.bench.branch.tip)
        return await asyncio.to_thread(returned.start, self.bench.store, tip, entry.commit)

    async def _make(self, record: TrainRecord, entry: ReturnedChange, first: Spec, to: Helper, start: HelpStart) -> str:
        """The order that helps."""
        orders = [name for each in start.sides for name in each.orders] if start.sides else start.landed
        intents = {name: await self._intent(name) for name in list(dict.fromkeys(orders))[-TITLES:]}
        title = (await client.get_order(self.bus, entry.first)).title
        own = QueuedChange(order=entry.order, commit=entry.commit, verify=entry.verify or first.verify)
        verify = " && ".join(each.verify for each in queue.checks_of(queue.CarCheck(record.verify), [own]))
        if entry.kind == "judge":
            judge = await asyncio.to_thread(returned.judge_diff, self.bench.store, start.since, entry)
            return await self._ask(record, entry, first, returned.about_judge(entry, record.branch, title, judge))
        if entry.kind == "evidence":
            return await self._ask(record, entry, first, returned.about_evidence(entry, record.branch, title))
        if to == "person":
            then = returned.after_person(first, record.reconciler)
            text = returned.for_person(entry, record.branch, verify, title, start.sides, intents, then)
            return await self._ask(record, entry, first, text)
        await asyncio.to_thread(self.bench.lend, start.commit, start.tip)
        more: dict[str, Any] = {
            "base": start.commit,
            "bundle": "",
            "land": record.branch,
            "verify": verify,
            "setup": record.setup or first.setup,
            "root": record.repository,
            "after": (),
            "race": "",
        }
        if first.bundle or first.repo:
            more["bundle"] = (
                await submission.send(self.bus, replace(first, root=record.repository, base=start.commit))
            ).bundle
        if to == "author":
            comments = returned.for_author(entry, record.branch, verify, start.sides, intents)
            goes_on = entry.order if entry.tries < returned.AUTHOR_TRIES and entry.to != "person" else entry.first
            author = first.by_agent((await client.get_order(self.bus, goes_on)).agent)
            more |= {
                "agent": author.agent,
                "model": author.model,
                "credential": author.credential,
                "continues": goes_on,
                "comments": comments,
                "task": first.task,
            }
        else:
            task = returned.for_reconciler(entry, record.branch, verify, first.task, start.sides, intents)
            more |= {"task": task, "title": f"reconcile {entry.first}: {title}", "continues": "", "comments": ""}
            if record.reconciler:
                more |= {"agent": record.reconciler, "model": None}
        return (await client.retry(self.bus, entry.order, by=TRAIN, more=more)).id

    async def _ask(self, record: TrainRecord, entry: ReturnedChange, first: Spec, text: str) -> str:
        spec = Spec(
            id=new_id(f"about {entry.order} in {self.name}, try {entry.tries} since {entry.at}, {entry.files}"),
            task=text,
            title=f"{entry.first} cannot land on {record.branch}",
            agent=PERSON,
            project=first.project,
            answer_seconds=ANSWER_SECONDS,
            by=TRAIN,
        )
        (given,) = await client.submit(self.bus, [spec])
        return given.id

    async def _intent(self, name: str) -> str:
        """What an order was for, and what its agent said about it: its capsule."""
        try:
            order = await client.get_order(self.bus, name)
        except NotFound:
            return name
        capsule = order.result.get("capsule")
        decision = str(capsule.get("decision") or "") if isinstance(capsule, dict) else ""
        return f"{name}: {order.title}" + (f" ({decision})" if decision else "")

    # ... and back

    async def _taken_up(self, record: TrainRecord, entry: ReturnedChange, order: Order) -> TrainRecord:
        commit = str(order.result.get("commit", ""))
        if entry.to == "person":
            return await self._answered(record, entry, order)
        record = returned.renamed(record, entry)
        if order.state != "done" or not commit:
            why = order.why or "it changed nothing"
            self.say(f"no help  {entry.first}, {_named(entry.to)} in {order.id}: {why}")
            return returned.unhelped(record, entry, order.id, commit, why)
        if entry.to == "reconciler":
            await bring(self.bus, self.bench, order.id, commit)
            found = await asyncio.to_thread(returned.doubts, self.bench.store, entry.tip, entry.commit, commit)
            if found:
                return await self._ask_about(record, entry, order, found)
        return queue.joined(record, await change_of(self.bus, order))

    async def _ask_about(
        self, record: TrainRecord, entry: ReturnedChange, order: Order, found: list[returned.Doubt]
    ) -> TrainRecord:
        """Ask a person about a result that does not keep both sides; it is stated on both."""
        text = returned.for_person_about(order.id, entry, record.branch, found)
        first = await client.get_spec(self.bus, entry.first)
        by = await self._ask(record, replace(entry, order=order.id), first, text)
        self.say(f"asks     {entry.first}: {order.id} does not keep both sides")
        what = f"{order.id} did not keep both sides, so a person is asked in {by}"
        await client.note_result(self.bus, entry.first, what, {"asks": by}, by=TRAIN)
        return returned.doubted(record, entry, by, order.id)

    async def _answered(self, record: TrainRecord, entry: ReturnedChange, order: Order) -> TrainRecord:
        words = str(order.result.get("says", ""))
        if entry.result and order.state == "done" and order.result.get("decision") == "allow":
            return await self._land_doubted(record, entry, str(order.result.get("by") or "a person"))
        if order.state == "done" and order.result.get("decision") == "allow":
            if entry.kind in ("judge", "evidence"):
                made = await change_of(self.bus, await client.get_order(self.bus, entry.order))
                return queue.joined(record, returned.allowed(made, entry))
            if returned.after_person(await client.get_spec(self.bus, entry.first), record.reconciler) is None:
                made = await change_of(self.bus, await client.get_order(self.bus, entry.order))
                return queue.joined(record, returned.as_it_is(made, entry))
            return returned.answered(record, entry, words)
        why = f"{entry.why}; {order.result.get('by') or 'a person'} left it out" + (f": {words}" if words else "")
        await self._give_up(entry, why)
        return returned.closed(record, entry)

    async def _land_doubted(self, record: TrainRecord, entry: ReturnedChange, by: str) -> TrainRecord:
        """A person lets it land though it undoes in part what others landed: they say so, and so does it."""
        made = await client.get_order(self.bus, entry.result)
        commit = str(made.result["commit"])
        await bring(self.bus, self.bench, made.id, commit)
        found = await asyncio.to_thread(returned.doubts, self.bench.store, entry.tip, entry.commit, commit)
        for name in sorted({name for each in found for name in each.orders}):
            what = f"what it landed on {record.branch} is undone in part by {made.id}, which {by} allowed"
            await client.note_result(self.bus, name, what, {"undone_by": made.id}, by=TRAIN)
            await client.note_result(
                self.bus, made.id, f"undoes in part what {name} landed", {"undoes": name}, by=TRAIN
            )
        return queue.joined(record, await change_of(self.bus, made))


def _named(to: str) -> str:
    return {"author": "its author", "reconciler": "a reconciler", "person": "a person"}[to]


async def call_off(bus: Bus, entries: Iterable[ReturnedChange]) -> None:
    """No help is wanted any more."""
    for entry in entries:
        if not entry.by:
            continue
        with contextlib.suppress(LocalError, NotFound):  # it has ended already
            await client.cancel(bus, entry.by, why="its work was taken out of the train", by=TRAIN)


async def change_of(bus: Bus, order: Order, *, anyway: bool = False) -> QueuedChange:
    """What is queued of a finished order."""
    spec, receipt = await client.get_spec(bus, order.id), await client.get_receipt(bus, order.id)
    return QueuedChange(
        order=order.id,
        commit=str(order.result["commit"]),
        base=await results.began_from(bus, order),
        title=order.title,
        goal=spec.project,
        agent=_workers(spec, order),
        receipt=receipt.sha256 if receipt is not None else "",
        at=time.time(),
        anyway=anyway,
        may_change=spec.may_change,
        verify=spec.verify,
        setup=spec.setup if spec.agent != NULL else "",  # there it is the work itself
        network=spec.network,
        require=spec.require,
    )


def _workers(spec: Spec, order: Order) -> str:
    """Who worked on it, one after the other; where that is one, with the model."""
    names = list(dict.fromkeys(each.agent for each in order.attempts if each.agent and each.outcome != NOT_HERE))
    who = spec.by_agent(names[0] if names else "")
    return ", ".join(names) if len(names) > 1 else f"{who.agent} ({who.model})" if who.model else who.agent


async def bring(bus: Bus, bench: Bench, name: str, commit: str) -> None:
    """Bring the change of an order into the train's store."""
    order = await client.get_order(bus, name)
    if order.result.get("commit") != commit:
        return  # a helper has ended without one: what it was to help is here
    bundle = await results.bundle_of(bus, order, bench.user)
    await asyncio.to_thread(bench.keep, name, commit, bundle, str(order.result.get("base", "")))
