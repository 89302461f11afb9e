"""Work that is red or in conflict goes to who can help, and lands after all: real orders with scripted models."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.fleet.conftest import Start, give, spec
from tests.fleet.conftest import start_node as start_node
from tests.fleet.repositories import git, model, read, says, work, write
from tests.landing.test_train import proof
from treadle.cli.root import treadle
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.landing import train
from treadle.landing.train import Train
from treadle.wire.fleet.records import Order
from treadle.wire.fleet.train import TrainRecord

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
    assert helper.result["decisions"] == [{"path": "a.txt", "hunk": 1, "took": "both"}]
    assert first.retried_as == helper.id and not git(repository, "for-each-ref", "refs/treadle")


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


async def test_work_without_an_agent_is_asked_about_once_and_tried_once_more_as_it_is(
    bus: Bus, start_node: Start, repository: Path
) -> None:
    await start_node()
    base = git(repository, "rev-parse", "main")
    bad, late = (
        spec(root=str(repository), base=base, setup=f"echo {text} > {name}.txt", title=f"makes {name}")
        for name, text in (("c", "bad"), ("d", "late"))
    )
    await give(bus, bad, late)
    await done(bus, bad.id, late.id)
    (repository / "late.txt").write_text("bad\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "red")

    def asks(record: TrainRecord) -> bool:
        return len(record.back) == 2 and all(each.by for each in record.back)

    record = await landed(bus, repository, bad.id, late.id, until=asks)
    questions = {each.by for each in record.back}
    async with asyncio.timeout(60):
        while len(asked := [each for each in await client.approvals(bus) if each.order in questions]) < 2:
            await asyncio.sleep(0.02)
    (text,) = [each.text for each in asked if bad.id in each.text]
    assert "made without an agent" in text and f"treadle fleet diff {bad.id}" in text and "once more as it is" in text
    assert f"The check, `{CHECK}`, said:\n(nothing)" in text
    git(repository, "rm", "-q", "late.txt")
    git(repository, "commit", "-qm", "a person has made the branch green")
    for question in questions:
        await client.answer(bus, question, "allow")
    record = await landed(bus, repository, until=settled)
    assert record.landed == 1 and (repository / "d.txt").exists() and not (repository / "c.txt").exists()
    assert [each.order for each in record.left_out] == [bad.id]
    async with asyncio.timeout(60):
        while not (await client.get_order(bus, bad.id)).result.get("not_landed"):
            await asyncio.sleep(0.02)
    assert await client.approvals(bus) == [], "no one is asked again about what did not change"


async def test_an_order_that_says_drop_is_left_out_and_nobody_is_asked(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    bad = work(repository, model(tmp_path, *writes("c.txt", "bad\n", turn=1), says("Done.")), on_red="drop")
    await give(bus, bad)
    await done(bus, bad.id)
    record = await landed(bus, repository, bad.id)
    assert record.landed == 0 and [each.order for each in record.left_out] == [bad.id]
    async with asyncio.timeout(60):
        while not (await client.get_order(bus, bad.id)).result.get("not_landed"):
            await asyncio.sleep(0.02)
