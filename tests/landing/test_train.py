"""A train on a real engine and repository: what lands is what was checked, whatever is killed or moved meanwhile."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.fleet.repositories import git
from tests.landing.finished import Finished, clean
from tests.landing.trains import CHECK, empty, run
from treadle.errors import LocalError, NotFound, WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus, Write
from treadle.fleet.orders import encode
from treadle.io.sandbox import limits
from treadle.landing import train
from treadle.landing.bench import BuiltCar
from treadle.landing.queue import BuildCar
from treadle.landing.train import Train
from treadle.wire.fleet import keys
from treadle.wire.fleet.train import LandedRecord, QueuedChange, TrainRecord


async def proof(bus: Bus, order: str) -> LandedRecord | None:
    found = await bus.named([f"landed.{order}.*"])
    return msgspec.json.decode(next(iter(found.values())).value, type=LandedRecord) if found else None


def line(repository: Path) -> list[str]:
    """The branch's own commits after the first, oldest first."""
    return git(repository, "log", "--first-parent", "--reverse", "--format=%H", "main").split()[1:]


def is_green(repository: Path, commit: str, tmp_path: Path) -> bool:
    place = tmp_path / f"look-{commit[:12]}"
    git(repository, "worktree", "add", "-q", "--detach", str(place), commit)
    try:
        return subprocess.run(["sh", "-c", CHECK], cwd=place).returncode == 0
    finally:
        git(repository, "worktree", "remove", "--force", str(place))


async def test_finished_orders_land_each_checked_and_the_checkout_follows(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path
) -> None:
    names = [await finished.order(f"o{number}", {f"new{number}.txt": "good\n"}) for number in range(3)]
    record = await run(bus, repository, *names)
    assert record.landed == 3 and record.left_out == () and record.queue == ()
    assert all((repository / f"new{number}.txt").exists() for number in range(3)) and clean(repository)
    for number, name in enumerate(names, 1):
        found = await proof(bus, name)
        assert found is not None and found.seq == number and found.branch == "main"
        assert git(repository, "rev-parse", f"{found.commit}^{{tree}}") == found.tree
        assert f"Order: {name}" in git(repository, "log", "-1", "--format=%B", found.commit)
    assert [is_green(repository, commit, tmp_path) for commit in line(repository)] == [True] * len(line(repository))
    parents = git(repository, "log", "--first-parent", "-3", "--format=%P", "main").splitlines()
    assert all(len(row.split()) >= 2 for row in parents), "each landing has the old tip and its change as parents"


@pytest.mark.slow
async def test_what_is_red_or_conflicts_is_left_out_with_the_reason_and_the_rest_lands(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path
) -> None:
    good = await finished.order("good", {"good.txt": "x\n"})
    bad = await finished.order("bad", {"c.txt": "bad\n"})
    left = await finished.order("left", {"left.txt": "x\n"})
    right = await finished.order("right", {"right.txt": "x\n"})
    first = await finished.order("first", {"a.txt": "first\n"})
    second = await finished.order("second", {"a.txt": "second\n"})
    record = await run(bus, repository, good, bad, left, right, first, second)
    out = {each.order: each for each in record.left_out}
    assert record.landed == 3 and set(out) & {left, right} and set(out) - {left, right} == {bad, second}
    assert out[bad].kind == "red" and out[second].kind == "conflict" and "a.txt (content" in out[second].why
    assert not (repository / "c.txt").exists() and (repository / "a.txt").read_text() == "first\n"
    assert all(is_green(repository, commit, tmp_path) for commit in line(repository))
    assert await proof(bus, bad) is None


async def test_a_change_to_files_that_other_programs_obey_lands_when_a_person_agrees(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    obeyed = await finished.order("obeyed", {".github/workflows/ci.yml": "on: push\n", "docs/AGENTS.md": "x\n"})
    record = await run(bus, repository, obeyed, await finished.order("good", {"good.txt": "x\n"}))
    [out] = record.left_out
    assert record.landed == 1 and (out.order, out.kind) == (obeyed, "refused")
    assert "it changes .github/workflows/ci.yml, docs/AGENTS.md, which other programs obey" in out.why
    assert f"land {obeyed} --anyway" in out.why
    name = train.name_of(str(repository / ".git"), "main")
    await train.board(bus, name, [obeyed], anyway=True)
    loaded, _ = await train.load(bus, name)
    assert (await Train(bus, name, loaded).run(empty)).landed == 2
    assert (repository / "docs" / "AGENTS.md").exists()


async def test_a_commit_made_meanwhile_stays_and_what_was_built_is_checked_again_on_top_of_it(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    verify = "test -e person.txt && exit 0; touch begun; while ! test -e go; do sleep 0.02; done"
    task = asyncio.create_task(run(bus, repository, one, verify=verify))
    async with asyncio.timeout(60):
        while not (begun := list((tmp_path / "temp").glob("treadle-tmp-check-*/tree/begun"))):
            await asyncio.sleep(0.02)
    (repository / "person.txt").write_text("mine\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "a person's")
    person = git(repository, "rev-parse", "HEAD")
    begun[0].with_name("go").touch()
    record = await task
    assert record.landed == 1 and record.checks >= 1 and clean(repository)
    assert git(repository, "rev-parse", "main^1") == person and (repository / "person.txt").exists()


async def test_what_a_person_has_not_committed_delays_the_train_which_then_goes_on_by_itself(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"a.txt": "two\n"})
    (repository / "a.txt").write_text("mine\n")
    (repository / "b.txt").write_text("mine, and in no one's way\n")
    running = asyncio.create_task(run(bus, repository, one))
    name = train.name_of(str(repository / ".git"), "main")
    async with asyncio.timeout(60):
        while (delay := (await train.trains(bus)).get(name, TrainRecord(repository="", branch="")).delay) is None:
            await asyncio.sleep(0.05)
    assert "a.txt" in delay.why and "b.txt" not in delay.why and git(repository, "rev-parse", "main") == finished.base
    assert (repository / "a.txt").read_text() == "mine\n"
    git(repository, "checkout", "-q", "a.txt")
    assert (await running).landed == 1 and (repository / "a.txt").read_text() == "two\n"
    assert (repository / "b.txt").read_text() == "mine, and in no one's way\n"


async def test_a_check_that_the_disk_has_no_room_for_is_no_verdict_and_is_begun_again(
    bus: Bus, finished: Finished, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = ["0 KB are left"] * 2
    monkeypatch.setattr(limits, "full", lambda place: full.pop() if full else "")
    record = await run(bus, repository, await finished.order("bad", {"a.txt": "bad\n"}))
    assert full == [] and [each.kind for each in record.left_out] == ["red"] and record.checks == 2


async def test_what_a_person_merged_by_hand_is_there_and_not_landed_twice(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    git(repository, "fetch", "-q", str(finished.clone), "refs/heads/result")
    git(repository, "merge", "-q", "FETCH_HEAD")
    tip = git(repository, "rev-parse", "main")
    record = await run(bus, repository, one)
    assert record.landed == 0 and [each.kind for each in record.left_out] == ["there"]
    assert git(repository, "rev-parse", "main") == tip


async def test_a_branch_that_was_forced_back_stops_the_train(bus: Bus, finished: Finished, repository: Path) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    assert (await run(bus, repository, one)).landed == 1
    git(repository, "reset", "-q", "--hard", finished.base)
    two = await finished.order("two", {"other.txt": "x\n"})
    record = await run(bus, repository, two)
    assert record.paused is not None and "forced it back" in record.paused.what
    assert git(repository, "rev-parse", "main") == finished.base


@pytest.mark.slow
async def test_three_trains_at_once_land_each_change_once(
    bus: Bus, finished: Finished, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "OVERDUE_SECONDS", -1.0)  # each believes that the others are gone
    names = [await finished.order(f"o{number}", {f"new{number}.txt": "x\n"}) for number in range(6)]
    records = await asyncio.gather(*(run(bus, repository, *names) for _ in range(3)))
    assert all(not record.queue and record.paused is None for record in records)
    told = git(repository, "log", "--format=%B", "main")
    assert [told.count(f"Order: {name}\n") for name in names] == [1] * 6 and clean(repository)
    assert all([await proof(bus, name) for name in names])


async def test_what_another_wrote_into_the_record_meanwhile_is_not_overwritten(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one, two = [await finished.order(name, {f"{name}.txt": "x\n"}) for name in ("one", "two")]
    name = await train.ensure(bus, str(repository), "", verify=CHECK, setup="", slots=2)
    await train.board(bus, name, [one])

    class Interrupted(Train):
        async def _store(self, record: TrainRecord, *more: Write) -> None:
            if record.slots != 3:
                await train.change(bus, name, lambda found: replace(found, slots=3))
            await super()._store(record, *more)

    record, _ = await train.load(bus, name)
    await train.board(bus, name, [two])
    done = await Interrupted(bus, name, record).run(empty)
    assert done.landed == 2 and done.slots == 3


@pytest.mark.slow
async def test_what_was_built_is_not_built_again_because_more_work_has_come(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    names = [await finished.order(f"o{number}", {f"new{number}.txt": "x\n"}) for number in range(4)]
    name = await train.ensure(bus, str(repository), "", verify=CHECK, setup="", slots=1)
    await train.board(bus, name, names[:1])
    built: list[tuple[str, ...]] = []

    class Interrupted(Train):
        async def _built(self, chosen: Sequence[QueuedChange], step: BuildCar) -> BuiltCar:
            built.append(step.orders)
            if len(built) < len(names):
                await train.board(bus, name, [names[len(built)]])
            return await super()._built(chosen, step)

    record, _ = await train.load(bus, name)
    assert (await Interrupted(bus, name, record).run(empty)).landed == 4
    assert sorted(order for orders in built for order in orders) == names


async def test_only_finished_orders_with_changes_are_taken_up(bus: Bus, finished: Finished, repository: Path) -> None:
    name = await train.ensure(bus, str(repository), "", verify="", setup="", slots=2)
    with pytest.raises(NotFound):
        await train.board(bus, name, ["nowhere"])
    one = await finished.order("one", {"new.txt": "x\n"})
    entry = await bus.get(f"order.{one}", latest=True)
    assert entry is not None
    await bus.put(f"order.{one}", entry.value.replace(b'"done"', b'"failed"'))
    with pytest.raises(LocalError, match="is failed, so it has nothing to land"):
        await train.board(bus, name, [one])


KILLED = """
import asyncio, os, signal, sys
from treadle.fleet.client import connected
from treadle.landing import bench, train
from treadle.landing.forge.branch import OwnBranch, PushedBranch
point, repository, order, verify, branch = sys.argv[1:]
def dies(where, name, after):
    real = getattr(where, name)
    async def slow(*args, **more):
        if after:
            await real(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)
    def quick(*args, **more):
        if after:
            real(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(where, name, slow if asyncio.iscoroutinefunction(real) else quick)
points = {"built": (bench.Bench, "build", True), "recorded as built": (train.Train, "_build", True),
          "checked": (bench.Bench, "check", True), "verdict recorded": (train.Train, "_take_verdict", True),
          "intent recorded": (train.Train, "_begin_landing", True),
          "branch moved": (PushedBranch if ":" in branch else OwnBranch, "move", True),
          "noted": (train.Train, "_note", True)}
async def main():
    async with connected() as bus:
        name = await train.ensure(bus, repository, branch, verify=verify, setup="", slots=2)
        await train.board(bus, name, [order])
        record, _ = await train.load(bus, name)
        if point == "verdict recorded":
            real = train.Train._take_verdict
            async def taken(self):
                if await real(self):
                    os.kill(os.getpid(), signal.SIGKILL)
                return False
            train.Train._take_verdict = taken
        elif point:
            dies(*points[point])
        await train.Train(bus, name, record).run(lambda record: not record.queue)
asyncio.run(main())
"""


POINTS = (
    "built",
    "recorded as built",
    "checked",
    "verdict recorded",
    "intent recorded",
    "branch moved",
    "noted",
)


def start_train(point: str, repository: Path, order: str, verify: str, branch: str) -> subprocess.Popen[bytes]:
    """A train in a process of its own that is killed at this point."""
    return subprocess.Popen([sys.executable, "-c", KILLED, point, str(repository), order, verify, branch])


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
async def test_killed_after_any_step_the_next_train_lands_it_exactly_once(
    bus: Bus, finished: Finished, repository: Path, point: str
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    assert await asyncio.to_thread(start_train(point, repository, one, CHECK, "").wait, 120) == -signal.SIGKILL
    moved = point in POINTS[5:]
    assert (git(repository, "rev-parse", "main") != finished.base) == moved, "it moves in one step, after the verdict"
    assert await proof(bus, one) is None
    two = await finished.order("two", {"other.txt": "x\n"})
    record = await run(bus, repository, two)
    assert record.landed == 2 and record.landing is None and record.paused is None and clean(repository)
    told = git(repository, "log", "--format=%B", "main")
    assert told.count("Order: one\n") == 1 and await proof(bus, one) is not None


async def test_a_record_of_a_newer_treadle_is_refused(bus: Bus, repository: Path, finished: Finished) -> None:
    name = await train.ensure(bus, str(repository), "", verify="", setup="", slots=2)
    record, _ = await train.load(bus, name)
    await bus.put(f"train.{name}", msgspec.json.encode(msgspec.structs.replace(record, format=99)))
    with pytest.raises(LocalError, match="newer treadle"):
        await train.load(bus, name)


async def test_an_order_lands_on_a_second_branch_too(bus: Bus, finished: Finished, repository: Path) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    git(repository, "branch", "release")
    assert (await run(bus, repository, one)).landed == 1
    name = await train.ensure(bus, str(repository), "release", verify=CHECK)
    await train.board(bus, name, [one])
    record, _ = await train.load(bus, name)
    async with asyncio.timeout(60):
        assert (await Train(bus, name, record).run(empty)).landed == 1
    assert git(repository, "show", "release:new.txt") == "x"
    assert len(await bus.keys(f"landed.{one}.*")) == 2


async def test_a_tree_that_the_repository_has_already_can_be_landed(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"deep/new.txt": "x\n"})
    (repository / "person.txt").write_text("mine\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "a person's")
    git(repository, "fetch", "-q", str(finished.clone), "refs/heads/result")
    git(repository, "merge", "-q", "--no-ff", "-m", "tried", "FETCH_HEAD")
    git(repository, "reset", "-q", "--hard", "HEAD~1")
    assert (await run(bus, repository, one)).landed == 1


async def test_with_another_check_what_was_green_is_checked_again(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"a.txt": "two\n"})
    (repository / "a.txt").write_text("mine\n")
    name = await train.ensure(bus, str(repository), "main", verify="true")
    await train.board(bus, name, [one])
    loaded, _ = await train.load(bus, name)
    record = await Train(bus, name, loaded).run(lambda found: found.delay is not None)
    assert record.row[0].verdict == "green" and record.landed == 0
    git(repository, "checkout", "-q", "a.txt")
    await train.ensure(bus, str(repository), "main", verify="false")
    loaded, _ = await train.load(bus, name)
    record = await Train(bus, name, loaded).run(empty)
    assert record.landed == 0 and [out.kind for out in record.left_out] == ["red"]


async def test_a_commit_dated_in_the_far_future_stops_no_train(
    bus: Bus, finished: Finished, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "@7000000000 +0000")
    late = await finished.order("late", {"late.txt": "x\n"})
    monkeypatch.delenv("GIT_COMMITTER_DATE")
    one = await finished.order("one", {"one.txt": "x\n"})
    assert (await run(bus, repository, late, one)).landed == 2


async def test_a_train_is_made_once_and_its_first_check_stays(bus: Bus, finished: Finished, repository: Path) -> None:
    with pytest.raises(NotFound, match="there is no train t") as error:
        await train.load(bus, "t")
    assert error.value.hint == "`treadle land ls` lists them" and await train.trains(bus) == {}
    name = await train.ensure(bus, str(repository), "")
    assert name == train.name_of(str(repository / ".git"), "main") == await train.ensure(bus, str(repository), "main")
    record = (await train.trains(bus))[name]
    assert (record.repository, record.branch, record.verify) == (str(repository), "main", "")
    await train.check_with(bus, name, "make", "make deps", "goal")
    record = await train.check_with(bus, name, "true", "", "goal")
    assert (record.verify, record.setup, record.verify_by) == ("make", "make deps", "goal"), "the first goal decides"
    assert (await train.ensure(bus, str(repository), "main", verify="true", slots=5)) == name
    record, revision = await train.load(bus, name)
    assert (record.verify, record.verify_by, record.setup, record.slots) == ("true", "person", "make deps", 5)
    assert await train.change(bus, name, lambda found: found) == record and (await train.load(bus, name))[1] == revision
    with pytest.raises(WorkspaceError, match="has no branch 'nowhere'"):
        await train.ensure(bus, str(repository), "nowhere")


async def test_what_was_queued_or_has_landed_is_not_queued_again_by_who_cannot_know(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one, two = await finished.order("one", {"one.txt": "x\n"}), await finished.order("two", {"two.txt": "x\n"})
    name = await train.ensure(bus, str(repository), "main", verify="true")
    idle = await finished.order("idle", {"three.txt": "x\n"})
    order = await client.get_order(bus, idle)
    await bus.put("order.idle", encode(replace(order, result={})))
    assert await train.board(bus, name, [one, idle]) == [idle]
    await bus.put("order.idle", encode(replace(order, state="running")))
    with pytest.raises(LocalError, match="the order idle is running, so it has nothing to land"):
        await train.board(bus, name, [idle])
    record, revision = await train.load(bus, name)
    assert [(each.order, each.anyway) for each in record.queue] == [(one, False)]
    await train.board(bus, name, [one], once=True)
    assert (await train.load(bus, name))[1] == revision
    landed = LandedRecord(order=two, train=name, branch="main", commit="c", tree="t", seq=1, at=1.0)
    await bus.put(keys.LANDED(two, name), encode(landed))
    await train.board(bus, name, [two], once=True)
    assert (await train.load(bus, name))[1] == revision
    await train.board(bus, name, [two], anyway=True)
    record, _ = await train.load(bus, name)
    assert [(each.order, each.anyway) for each in record.queue] == [(one, False), (two, True)]


async def test_what_the_branch_has_needs_no_ref_of_ours_any_more_and_other_branches_stay(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one, two = await finished.order("one", {"b.txt": "1\n"}), await finished.order("two", {"c.txt": "2\n"})
    for name in (one, two):
        commit = (await client.get_order(bus, name)).result["commit"]
        git(repository, "fetch", "-q", str(finished.clone), commit)
        git(repository, "branch", f"treadle/{name}", commit)
        git(repository, "update-ref", f"refs/treadle/{commit}", commit)
    git(repository, "branch", "treadle/session", "main")
    await run(bus, repository, one)
    commit = (await client.get_order(bus, two)).result["commit"]
    left = git(repository, "for-each-ref", "--format=%(refname)", "refs/treadle", "refs/heads/treadle").split()
    assert "refs/heads/treadle/two" in left and "refs/heads/treadle/session" in left, "no work is thrown away"
    assert [ref for ref in left if ref.startswith("refs/treadle/")] == [f"refs/treadle/{commit}"]
    assert git(repository, "fsck", "--no-dangling") == ""
