"""Work that is red or in conflict goes to who can help, and lands after all: real orders with scripted models."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.fleet.conftest import Start, give
from tests.fleet.conftest import start_node as start_node
from tests.fleet.repositories import git, model, read, says, work, write
from tests.landing.blamed import costing
from tests.landing.finished import Finished
from tests.landing.test_train import proof
from treadle.cli.root import treadle
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import PERSON, TRAIN, encode
from treadle.landing import sending, train
from treadle.landing.bench import Bench
from treadle.landing.sending import SendingBack
from treadle.landing.train import Train
from treadle.wire.fleet.records import Attempt, Order, Used
from treadle.wire.fleet.train import LandedRecord, QueuedChange, ReturnedChange, TrainRecord
from treadle.workspace.checkouts import around

pytestmark = pytest.mark.slow

CHECK = "! grep -rqs bad *.txt"


def settled(record: TrainRecord) -> bool:
    return record.paused is not None or not record.queue and not record.back


def writes(file: str, text: str, **when: Any) -> list[dict[str, Any]]:
    return [says("I write.", read(file), write(file, text), **when)]


async def landed(bus: Bus, repository: Path, *orders: str, until: Any = settled) -> TrainRecord:
    name = await train.ensure(bus, str(repository), "main", verify=CHECK)
    await train.board(bus, name, orders)
    record, _ = await train.load(bus, name)
    async with asyncio.timeout(120):
        return await Train(bus, name, record).run(until)


async def done(bus: Bus, *names: str) -> None:
    for name in names:
        order = await client.wait(bus, name, 60)
        assert order.state == "done", order.why


async def order_of(bus: Bus, name: str) -> Order:
    """The order once what was noted with it is there."""
    async with asyncio.timeout(60):
        while not (found := await client.get_order(bus, name)).result.get("landed"):
            await asyncio.sleep(0.02)
    return found


async def test_a_conflict_goes_to_its_author_with_both_sides_and_lands_with_both(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    one = work(
        repository, model(tmp_path, *writes("a.txt", "first\n"), says("Made it first."), name="one"), title="be first"
    )
    fix = writes(
        "a.txt", "first\nsecond\n", when="(?s)conflicts with the branch.*be first .Made it first.*[+]first.*[+]second"
    )
    two = work(
        repository,
        model(tmp_path, *fix, *writes("a.txt", "second\n", turn=1), says("Done.", times="always"), name="two"),
    )
    await give(bus, one, two)
    await done(bus, one.id, two.id)
    record = await landed(bus, repository, one.id, two.id)
    assert record.landed == 2 and (repository / "a.txt").read_text() == "first\nsecond\n"
    found = await proof(bus, two.id)
    assert found is not None and found.by and git(repository, "rev-parse", "main") == found.commit
    helper, first = await order_of(bus, found.by), await order_of(bus, two.id)
    assert helper.attempts[-1].resumed == "session" and first.result["landed"] == helper.result["landed"]
    assert first.retried_as == helper.id and not git(repository, "for-each-ref", "refs/treadle")


@pytest.mark.long
async def test_what_its_author_cannot_fix_twice_goes_to_a_reconciler_and_the_failure_with_it(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    replies = [
        *writes("c.txt", "good\n", when="(?s)You wrote neither side.*grep -rqs bad.*fails with it"),
        says("I see nothing wrong.", when="It comes back to you", times="always"),
        *writes("c.txt", "bad\n", turn=1),
        says("Done.", times="always"),
    ]
    bad = work(repository, model(tmp_path, *replies))
    await give(bus, bad)
    await done(bus, bad.id)
    record = await landed(bus, repository, bad.id)
    assert record.landed == 1 and (repository / "c.txt").read_text() == "good\n"
    notes = [note.what for note in (await order_of(bus, bad.id)).notes]
    assert [word for note in notes for word in ("its author", "a reconciler") if f"went to {word}" in note] == [
        "its author",
        "its author",
        "a reconciler",
    ]


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_person_is_asked_with_everything_and_says_how_it_goes_on(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path, decision: str
) -> None:
    await start_node()
    fix = writes("c.txt", "good\n", when="A person says: write good")
    replies = [*fix, *writes("c.txt", "bad\n", turn=1), says("Done.", times="always")]
    bad = work(repository, model(tmp_path, *replies), on_red="person", title="a file")
    await give(bus, bad)
    await done(bus, bad.id)

    def asks(record: TrainRecord) -> bool:
        return any(each.by for each in record.back)

    record = await landed(bus, repository, bad.id, until=asks)
    (entry,) = record.back
    async with asyncio.timeout(60):
        while not (asked := [each for each in await client.approvals(bus) if each.order == entry.by]):
            await asyncio.sleep(0.02)
    assert f"{bad.id} (a file) cannot land on main: its check failed twice" in asked[0].text
    shown = await asyncio.to_thread(CliRunner().invoke, treadle, ["fleet", "approvals"])
    assert "Allow: its agent tries again, with what you write here." in shown.output
    git(repository, "gc", "-q", "--prune=now")  # takes nothing that is needed
    await client.answer(bus, entry.by, decision, text="write good")
    record = await landed(bus, repository, until=settled)
    assert record.landed == (decision == "allow") and (repository / "c.txt").exists() == (decision == "allow")


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_what_a_reconciler_undoes_of_another_lands_only_when_a_person_agrees_and_both_say_so(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path, decision: str
) -> None:
    await start_node()
    one, two = [
        work(
            repository,
            model(tmp_path, *writes("a.txt", f"{name}\n", turn=1), says("Done.", times="always"), name=name),
            on_red="reconciler",
        )
        for name in ("first", "second")
    ]
    await give(bus, one, two)
    await done(bus, one.id, two.id)
    record = await landed(
        bus, repository, one.id, two.id, until=lambda record: any(each.result for each in record.back)
    )
    (entry,) = record.back
    assert record.landed == 1 and (repository / "a.txt").read_text() == "first\n"
    assert (entry.first, entry.to) == (two.id, "person") and record.landing is None
    await client.answer(bus, entry.by, decision)
    record = await landed(bus, repository, until=settled)
    agreed = decision == "allow"
    assert record.landed == 1 + agreed and (repository / "a.txt").read_text() == ("second\n" if agreed else "first\n")
    said = [(await client.get_order(bus, name)).result for name in (one.id, entry.result)]
    assert (said[0].get("undone_by"), said[1].get("undoes")) == ((entry.result, one.id) if agreed else (None, None))


class Steps:
    """What is sent back of a finished order, step by step, with no node at work."""

    def __init__(self, bus: Bus, repository: Path) -> None:
        self.bus, self.repository = bus, repository
        self.said: list[str] = []
        self.bench = Bench("t", around(str(repository)), "main")
        self.sending = SendingBack(bus, "t", self.bench, self.said.append)

    async def entry(self, name: str, **fields: Any) -> ReturnedChange:
        order = await client.get_order(self.bus, name)
        given = {"kind": "red", "why": "it was red", "at": 5.0, "base": order.result["base"], **fields}
        return ReturnedChange(order=name, first=name, commit=order.result["commit"], **given)

    async def step(self, *entries: ReturnedChange, **fields: Any) -> TrainRecord:
        record = TrainRecord(repository=str(self.repository), branch="main", verify="make", back=entries, **fields)
        found = await self.sending.step(record)
        assert found is not None
        return found

    async def ended(self, name: str, state: str, **fields: Any) -> None:
        """The scheduler's record of an order that has come to this end."""
        made = Order(id=name, state=state, changed=1.0, title=name, **fields)  # type: ignore[arg-type]
        await self.bus.put(f"order.{name}", encode(made))


@pytest.fixture
async def steps(bus: Bus, repository: Path) -> Steps:
    return await asyncio.to_thread(Steps, bus, repository)


async def test_what_is_queued_of_an_order_says_whose_work_it_is(bus: Bus, finished: Finished) -> None:
    one = await finished.order("one", {"a.txt": "x\n"}, project="goal", agent="codex", model="m")
    two = await finished.order("two", {"a.txt": "x\n"}, agent="codex")
    await costing(bus, one, Used(input_tokens=1))
    order, receipt = await client.get_order(bus, one), await client.get_receipt(bus, one)
    assert receipt is not None
    made = await sending.change_of(bus, order, anyway=True)
    assert made.at > 0 and replace(made, at=0.0) == QueuedChange(
        order=one,
        commit=order.result["commit"],
        base=finished.base,
        title="one",
        goal="goal",
        agent="codex (m)",
        receipt=receipt.sha256,
        anyway=True,
    )
    plain = await sending.change_of(bus, await client.get_order(bus, two))
    assert (plain.agent, plain.receipt, plain.anyway, plain.goal) == ("codex", "", False, "")
    tried = [Attempt(number=at, node="n", placed=1.0, agent=name) for at, name in enumerate(("codex", "claude"), 1)]
    both = await sending.change_of(bus, replace(order, attempts=(replace(tried[1], outcome="not_here"), *tried)))
    assert both.agent == "codex, claude", "who worked on it"


async def test_each_helper_gets_an_order_of_its_kind_and_what_came_of_it_is_taken_up(
    bus: Bus, finished: Finished, repository: Path, steps: Steps
) -> None:
    notes = await bus.client.subscribe("fleet.in.>")
    one = await finished.order("one", {"a.txt": "x\n"}, agent="codex", model="m", setup="make deps")
    entry = await steps.entry(one)
    sent = await steps.step(entry)
    (waiting,) = sent.back
    helper = await client.get_spec(bus, waiting.by)
    assert (waiting.to, waiting.tries, waiting.tip) == ("author", 1, finished.base)
    assert (helper.agent, helper.model, helper.continues, helper.retry_of) == ("codex", "m", one, one)
    assert (helper.land, helper.verify, helper.setup, helper.by) == ("main", "make", "make deps", TRAIN)
    assert helper.comments.startswith("Your work did not land on main: it was red.") and helper.task == "one"
    assert git(repository, "for-each-ref", "--format=%(objectname)", "refs/treadle") == helper.base
    assert steps.said == [f"back     one to its author as {helper.id}: it was red"]
    words = b""
    while b"went to its author as" not in words:
        words = (await notes.next_msg(timeout=60)).data
    assert b'"sent_back"' in words and b"did not land on main" in words
    await steps.ended(helper.id, "running")
    assert await steps.sending.step(sent) is None

    await steps.ended("again", "failed", why="it gave up")
    await steps.ended(helper.id, "done", retried_as="again", result={"commit": "c" * 40})
    (left,) = (await steps.step(waiting)).back
    assert (left.by, left.order, left.tried) == ("", "again", ("author (again): it gave up",))
    assert steps.said[-1] == "no help  one, its author in again: it gave up"
    await steps.ended("again", "done")
    assert (await steps.step(waiting)).back[0].tried == ("author (again): it changed nothing",)

    two = await finished.order("two", {"b.txt": "x\n"}, agent="codex", model="m", setup="make deps")
    entry = await steps.entry(two, tries=2, to="author")
    (waiting,) = (await steps.step(entry, reconciler="claude", setup="make it")).back
    helper = await client.get_spec(bus, waiting.by)
    assert (waiting.to, helper.agent, helper.model, helper.continues) == ("reconciler", "claude", None, "")
    assert helper.title == "reconcile two: two" and "You wrote neither side" in helper.task and not helper.comments
    assert helper.setup == "make it" and steps.said[-1].startswith("back     two to a reconciler as ")


async def test_the_author_of_what_was_handed_over_is_who_worked_on_it_last(
    bus: Bus, finished: Finished, steps: Steps
) -> None:
    one = await finished.order("one", {"a.txt": "x\n"}, agent="claude", model="opus", credential="work")
    await bus.put("order.one", encode(replace(await client.get_order(bus, one), agent="codex")))
    (waiting,) = (await steps.step(await steps.entry(one))).back
    helper = await client.get_spec(bus, waiting.by)
    assert (helper.agent, helper.model, helper.credential, helper.continues) == ("codex", None, "", one)


async def test_a_person_is_asked_once_and_the_answer_decides(bus: Bus, finished: Finished, steps: Steps) -> None:
    one = await finished.order("one", {"a.txt": "x\n"}, on_red="person", agent="codex", project="goal")
    entry = await steps.entry(one, output="the end")
    (waiting,) = (await steps.step(entry)).back
    question = await client.get_spec(bus, waiting.by)
    assert (waiting.to, question.agent, question.project, question.by) == ("person", PERSON, "goal", TRAIN)
    assert question.title == "one cannot land on main" and question.answer_seconds == sending.ANSWER_SECONDS
    assert "one (one) cannot land on main: it was red." in question.task and "its agent tries again" in question.task
    assert (await steps.step(entry)).back[0].by == waiting.by, "asked twice it is one question"
    await steps.ended(waiting.by, "done", result={"decision": "allow", "says": "try this"})
    (again,) = (await steps.step(waiting)).back
    assert (again.by, again.words, again.tries, again.to) == ("", "try this", 0, "person")
    notes = await bus.client.subscribe("fleet.in.>")
    for state, result, expected in (
        ("done", {"decision": "deny", "says": "no", "by": "ann"}, b"it was red; ann left it out: no"),
        ("failed", {"decision": "allow"}, b"it was red; a person left it out"),
    ):
        await steps.ended(waiting.by, state, result=result)
        assert (await steps.step(waiting)).back == ()
        words = (await notes.next_msg(timeout=60)).data
        assert expected in words and b'"not_landed"' in words
    null = await finished.order("null", {"b.txt": "x\n"}, agent="null")
    waiting = replace(await steps.entry(null), to="person", by=waiting.by)
    await steps.ended(waiting.by, "done", result={"decision": "allow"})
    record = await steps.step(waiting)
    assert record.back == () and [each.order for each in record.queue] == [null]
    assert record.queue[0].tried == ("a person had it tried as it is",)


async def test_a_person_is_asked_about_each_change_of_a_judge_and_again_when_it_is_queued_again(
    bus: Bus, finished: Finished, steps: Steps
) -> None:
    one = await finished.order("one", {"a.txt": "x\n" * 5000, "b\n.txt": "x\n"})
    asked = []
    for files, at in ((("a.txt",), 5.0), (("a.txt", "b\n.txt"), 5.0), (("a.txt",), 6.0)):
        entry = await steps.entry(one, kind="judge", why="it changes a.txt", files=files, at=at)
        for _ in range(2):
            (waiting,) = (await steps.step(entry)).back
            asked.append(waiting.by)
        await steps.ended(waiting.by, "done", result={"decision": "allow"})
    assert [asked.index(by) for by in asked] == [0, 0, 2, 2, 4, 4]
    question = (await client.get_spec(bus, asked[2])).task
    assert 'in a.txt, "b\\n.txt":' in question and "`treadle fleet diff one`" in question, "the list is never cut"


async def test_what_no_one_can_help_with_is_given_up_and_what_has_landed_needs_no_help(
    bus: Bus, finished: Finished, steps: Steps
) -> None:
    notes = await bus.client.subscribe("fleet.in.>")
    one = await finished.order("one", {"a.txt": "x\n"}, agent="codex")
    dropped = await finished.order("dropped", {"b.txt": "x\n"}, on_red="drop")
    assert (await steps.step(await steps.entry(dropped))).back == ()
    assert b"did not land: it was red" in (await notes.next_msg(timeout=60)).data
    ghost = replace(await steps.entry(one), order="ghost", first="ghost")
    assert (await steps.step(ghost)).back == ()
    assert b"it was red; no one can be asked to help: " in (await notes.next_msg(timeout=60)).data
    (waiting,) = (await steps.step(await steps.entry(one))).back
    await steps.ended(waiting.by, "running")
    landed = LandedRecord(order=one, train="t", branch="main", commit="c", tree="d", seq=1, at=5.0)
    await bus.put("landed.one.t", encode(landed))
    assert await steps.sending.step(TrainRecord(repository="r", branch="main", back=(waiting,))) is None
    await bus.put("landed.one.t", encode(replace(landed, at=5.5)))
    assert (await steps.step(waiting)).back == ()
    words = b""
    while b"its work was taken out of the train" not in words:
        words = (await notes.next_msg(timeout=60)).data
    assert waiting.by.encode() in words
    await sending.call_off(bus, [replace(waiting, by=""), replace(waiting, by="ghost")])


async def test_what_an_order_was_for_is_its_title_and_what_its_agent_decided(bus: Bus, steps: Steps) -> None:
    await steps.ended("plain", "done")
    await steps.ended("odd", "done", result={"capsule": "text"})
    await steps.ended("told", "done", result={"capsule": {"decision": "made it first"}})
    found = [await steps.sending._intent(name) for name in ("plain", "odd", "told", "ghost")]
    assert found == ["plain: plain", "odd: odd", "told: told (made it first)", "ghost"]
