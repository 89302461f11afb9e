"""A line says which order it came from: also of several in one commit, and also after the fleet has forgotten it."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.repositories import git
from tests.landing.blamed import costing
from tests.landing.finished import Finished
from tests.landing.test_train import proof
from tests.landing.trains import run
from treadle.errors import ConfigError, NotFound, WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import TRAIN
from treadle.landing import authorship
from treadle.wire.fleet.records import Used


async def test_the_order_its_goal_agent_cost_and_check_are_known_for_a_line(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\ny\n"}, project="export", agent="codex", model="m-1")
    await costing(bus, one, Used(input_tokens=1200, usd=0.25))
    await run(bus, repository, one, verify="test -e a.txt")
    found = await asyncio.to_thread(authorship.origin, str(repository / "new.txt"), 2)
    assert (found.order, found.goal, found.agent, found.text) == (one, "export", "codex (m-1)", "y")
    assert found.tree == git(repository, "rev-parse", "main^{tree}") and found.proved is None
    told = await authorship.with_fleet_records(bus, found)
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
    found = await authorship.with_fleet_records(
        bus, await asyncio.to_thread(authorship.origin, str(repository / "new.txt"), 1)
    )
    assert (found.order, found.first, found.task) == (helper, first, "first")
    assert found.used is not None and found.used.tokens == 130


@pytest.mark.slow
async def test_of_several_orders_in_one_commit_it_is_the_one_whose_work_has_the_line(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    names = [await finished.order(f"o{number}", {f"f{number}.txt": f"{number}\n"}) for number in range(3)]
    record = await run(bus, repository, *names, slots=1)
    assert record.landed == 3 and git(repository, "rev-list", "--count", "--first-parent", "main") == "2"
    places = [str(repository / f"f{number}.txt") for number in range(3)]
    assert [authorship.origin(place, 1).order for place in places] == names
    git(repository, "checkout", "-q", "-b", "release", finished.base)
    git(repository, "merge", "-q", "--no-ff", "-m", "a release", "main")
    assert [authorship.origin(place, 1).order for place in places] == names, "also behind a person's merge"


async def test_lines_of_a_person_and_lines_not_committed_have_no_order(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"a.txt": "".join(f"{n}\n" for n in range(9))})
    await run(bus, repository, one)
    (repository / "a.txt").write_text("mine\n" + "".join(f"{n}\n" for n in range(9)))
    with pytest.raises(WorkspaceError, match="a.txt:1 is not committed yet"):
        authorship.origin(str(repository / "a.txt"), 1)
    assert (
        authorship.origin(str(repository / "a.txt"), 5).text == "3"
        and authorship.origin(str(repository / "a.txt"), 5).order
    )
    git(repository, "commit", "-qam", "a person's\n\nSigned-off-by: x <x@y>")
    found = authorship.origin(str(repository / "a.txt"), 1)
    assert (found.order, found.subject) == ("", "a person's")
    assert authorship.origin(str(repository / "a.txt"), 1, "HEAD~1").order == one


async def test_a_commit_that_only_claims_to_have_landed_an_order_is_told_apart(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    await run(bus, repository, one)
    (repository / "new.txt").write_text("x\nforged\n")
    git(repository, "commit", "-qam", f"Land one\n\nOrder: {one}\nTrain: t\nVerified-Tree: {'f' * 40}")
    alone = authorship.origin(str(repository / "new.txt"), 2)
    assert (alone.order, alone.tree, alone.proved) == (one, "", False), "the tree that it names is not its own"
    forged = await authorship.with_fleet_records(bus, alone)
    assert forged.order == one and forged.proved is False
    assert (await authorship.with_fleet_records(bus, authorship.origin(str(repository / "new.txt"), 1))).proved is True


def test_what_is_not_a_line_is_said(repository: Path) -> None:
    for text in ("a.txt", "a.txt:", "a.txt:x", ":3", "a.txt:0"):
        with pytest.raises(ConfigError, match="is not FILE:LINE"):
            authorship.place_of(text)
    assert authorship.place_of("c:\\a:b.txt:12") == ("c:\\a:b.txt", 12)
    with pytest.raises(NotFound, match="a.txt has 1 lines"):
        authorship.origin(str(repository / "a.txt"), 2)
    with pytest.raises(NotFound, match="none.txt is not in"):
        authorship.origin(str(repository / "none.txt"), 1)


def test_a_line_is_found_again_where_it_has_moved_and_an_unknown_commit_is_said(repository: Path) -> None:
    text = "".join(f"{number}\n" for number in range(20))
    (repository / "deep").mkdir()
    (repository / "deep" / "long.txt").write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "long")
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "mv", "deep/long.txt", "deep/moved.txt")
    git(repository, "commit", "-qm", "moved")
    found = authorship.origin(str(repository / "deep" / "moved.txt"), 7)
    assert (found.file, found.line, found.text, found.commit) == ("deep/moved.txt", 7, "6", commit)
    assert (found.author, found.subject, found.order, found.proved) == (
        git(repository, "log", "-1", "--format=%an"),
        "long",
        "",
        None,
    )
    assert found.at == float(git(repository, "log", "-1", "--format=%ct", commit))
    (repository / "deep" / "moved.txt").write_text("new\n" + text.replace("3\n", "", 1))
    assert authorship.origin(str(repository / "deep" / "moved.txt"), 2).text == "0"
    assert authorship.origin(str(repository / "deep" / "moved.txt"), 20).text == "19"
    with pytest.raises(WorkspaceError, match=r"deep/moved.txt:1 is not committed yet, so no order wrote it") as error:
        authorship.origin(str(repository / "deep" / "moved.txt"), 1)
    assert error.value.hint == "git diff shows it"
    assert authorship.origin(str(repository / "deep" / "moved.txt"), 1, "HEAD").text == "0", "as it is there"
    (repository / "deep" / "moved.txt").unlink()
    assert authorship.origin(str(repository / "deep" / "moved.txt"), 20).text == "19"
    with pytest.raises(NotFound, match="deep/moved.txt has 20 lines") as missing:
        authorship.origin(str(repository / "deep" / "moved.txt"), 21)
    assert missing.value.hint == "give the number of one of them"
    with pytest.raises(NotFound, match="has no commit nowhere"):
        authorship.origin(str(repository / "a.txt"), 1, "nowhere")
    with pytest.raises(NotFound, match="none.txt is not in") as absent:
        authorship.origin(str(repository / "none.txt"), 1)
    assert absent.value.hint == "only what is committed has a history"


def test_of_a_line_that_only_the_merge_made_all_orders_are_named(repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD")
    sides = []
    for name in ("one", "two"):
        git(repository, "checkout", "-q", "--detach", base)
        (repository / f"{name}.txt").write_text("x\n")
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", name)
        sides.append(git(repository, "rev-parse", "HEAD"))
    git(repository, "checkout", "-q", "main")
    (repository / "made.txt").write_text("by the merge\n")
    git(repository, "add", "-A")
    tree = git(repository, "write-tree")
    words = "Land 2 orders\n\nOrder: one\nAgent: codex\nOrder: two\nTrain: t"
    parents = ["-p", base, "-p", sides[0], "-p", sides[1]]
    car = git(repository, "commit-tree", tree, *parents, "-m", words)
    git(repository, "reset", "-q", "--hard", car)
    found = authorship.origin(str(repository / "made.txt"), 1)
    assert (found.order, found.agent, found.commit, found.work) == ("one, two", "", car, car)
    fewer = git(repository, "commit-tree", tree, *parents[:4], "-m", words)
    git(repository, "reset", "-q", "--hard", fewer)
    assert authorship.origin(str(repository / "made.txt"), 1).order == "one", "parents that do not fit say nothing"


async def test_what_the_fleet_does_not_know_stays_unknown(bus: Bus, finished: Finished) -> None:
    plain = authorship.LineOrigin(file="a", line=1, text="x", commit="c", at=1.0, author="A", subject="s")
    assert await authorship.with_fleet_records(bus, replace(plain, order="ghost")) == replace(plain, order="ghost")
    one = await finished.order("one", {"new.txt": "x\n"}, verify="make")
    known = await authorship.with_fleet_records(bus, replace(plain, order=one))
    assert (known.proved, known.title, known.task, known.verify, known.attempts) == (None, "one", "one", "make", 0)
    assert known.first == "" and known.used == Used()
    lost = await finished.order("lost", {"new.txt": "x\n"}, by=TRAIN, retry_of="ghost")
    assert (await authorship.with_fleet_records(bus, replace(plain, order=lost))).first == ""
    again = await finished.order("again", {"new.txt": "x\n"}, by="ann", retry_of=one)
    assert (await authorship.with_fleet_records(bus, replace(plain, order=again))).first == "", (
        "a person tried it again"
    )
