"""A line says which order it came from: also of several in one commit, and also after the fleet has forgotten it."""

import asyncio
from pathlib import Path

import pytest

from tests.fleet.repositories import git
from tests.landing.blamed import costing
from tests.landing.test_merging import Finished
from tests.landing.test_train import proof
from tests.landing.trains import run
from treadle.errors import ConfigError, NotFound, WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run.resume.continuing import TRAIN
from treadle.landing import blame
from treadle.wire.fleet.records import Used


async def test_the_order_its_goal_agent_cost_and_check_are_known_for_a_line(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\ny\n"}, project="export", agent="codex", model="m-1")
    await costing(bus, one, Used(input_tokens=1200, usd=0.25))
    await run(bus, repository, one, verify="test -e a.txt")
    found = await asyncio.to_thread(blame.origin, str(repository / "new.txt"), 2)
    assert (found.order, found.goal, found.agent, found.text) == (one, "export", "codex (m-1)", "y")
    assert found.tree == git(repository, "rev-parse", "main^{tree}") and found.proved is None
    told = await blame.with_fleet_records(bus, found)
    receipt = await client.get_receipt(bus, one)
    assert receipt is not None and told.receipt == receipt.sha256
    assert told.proved and told.verify == "test -e a.txt" and told.used == Used(input_tokens=1200, usd=0.25)
    landed = await proof(bus, one)
    assert landed is not None and landed.on == finished.base
    assert (landed.verify, landed.receipt) == ("test -e a.txt", receipt.sha256)


async def test_work_that_was_sent_back_is_told_by_what_was_asked_for_first_and_costs_all_of_it(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    first = await finished.order("first", {"old.txt": "x\n"})
    await costing(bus, first, Used(input_tokens=100))
    helper = await finished.order("helper", {"new.txt": "x\n"}, by=TRAIN, retry_of=first)
    await costing(bus, helper, Used(input_tokens=30))
    await run(bus, repository, helper, verify="test -e a.txt")
    found = await blame.with_fleet_records(bus, await asyncio.to_thread(blame.origin, str(repository / "new.txt"), 1))
    assert (found.order, found.first, found.task) == (helper, first, "first")
    assert found.used is not None and found.used.tokens == 130


async def test_of_several_orders_in_one_commit_it_is_the_one_whose_work_has_the_line(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    names = [await finished.order(f"o{number}", {f"f{number}.txt": f"{number}\n"}) for number in range(3)]
    record = await run(bus, repository, *names, slots=1)
    assert record.landed == 3 and git(repository, "rev-list", "--count", "--first-parent", "main") == "2"
    places = [str(repository / f"f{number}.txt") for number in range(3)]
    assert [blame.origin(place, 1).order for place in places] == names
    git(repository, "checkout", "-q", "-b", "release", finished.base)
    git(repository, "merge", "-q", "--no-ff", "-m", "a release", "main")
    assert [blame.origin(place, 1).order for place in places] == names, "also behind a person's merge"


async def test_lines_of_a_person_and_lines_not_committed_have_no_order(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"a.txt": "".join(f"{n}\n" for n in range(9))})
    await run(bus, repository, one)
    (repository / "a.txt").write_text("mine\n" + "".join(f"{n}\n" for n in range(9)))
    with pytest.raises(WorkspaceError, match="a.txt:1 is not committed yet"):
        blame.origin(str(repository / "a.txt"), 1)
    assert blame.origin(str(repository / "a.txt"), 5).text == "3" and blame.origin(str(repository / "a.txt"), 5).order
    git(repository, "commit", "-qam", "a person's\n\nSigned-off-by: x <x@y>")
    found = blame.origin(str(repository / "a.txt"), 1)
    assert (found.order, found.subject) == ("", "a person's")
    assert blame.origin(str(repository / "a.txt"), 1, "HEAD~1").order == one


async def test_a_commit_that_only_claims_to_have_landed_an_order_is_told_apart(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    await run(bus, repository, one)
    (repository / "new.txt").write_text("x\nforged\n")
    git(repository, "commit", "-qam", f"Land one\n\nOrder: {one}\nTrain: t\nVerified-Tree: {'f' * 40}")
    forged = await blame.with_fleet_records(bus, blame.origin(str(repository / "new.txt"), 2))
    assert forged.order == one and forged.proved is False
    assert (await blame.with_fleet_records(bus, blame.origin(str(repository / "new.txt"), 1))).proved is True


def test_what_is_not_a_line_is_said(repository: Path) -> None:
    for text in ("a.txt", "a.txt:", "a.txt:x", ":3", "a.txt:0"):
        with pytest.raises(ConfigError, match="is not FILE:LINE"):
            blame.place_of(text)
    assert blame.place_of("c:\\a:b.txt:12") == ("c:\\a:b.txt", 12)
    with pytest.raises(NotFound, match="a.txt has 1 lines"):
        blame.origin(str(repository / "a.txt"), 2)
    with pytest.raises(NotFound, match="none.txt is not in"):
        blame.origin(str(repository / "none.txt"), 1)
