"""What has landed is taken back by an order that lands like anything else."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from tests.fleet.conftest import Start, give, spec
from tests.fleet.conftest import start_node as start_node
from tests.fleet.repositories import git
from tests.landing.finished import clean
from tests.landing.trains import empty, run
from treadle.cli.root import treadle
from treadle.errors import ConfigError, NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import NULL, encode
from treadle.landing import train
from treadle.landing.train import Train
from treadle.wire.fleet.records import Order
from treadle.wire.fleet.train import LandedRecord, TrainRecord
from treadle.wire.goal.records import GoalRecord, GoalStep

pytestmark = pytest.mark.slow


async def changes(bus: Bus, repository: Path, *commands: str) -> list[str]:
    """Orders without an agent that have done this, on the branch as it is."""
    base = git(repository, "rev-parse", "main")
    made = [spec(root=str(repository), base=base, setup=command) for command in commands]
    await give(bus, *made)
    assert [(await client.wait(bus, each.id, 60)).state for each in made] == ["done"] * len(made)
    return [each.id for each in made]


async def taken_back(bus: Bus, *orders: str) -> int:
    name, made = await train.revert(bus, list(orders))
    order = await client.wait(bus, made, 60)
    assert order.state == "done", order.why
    await train.board(bus, name, [made])
    record, _ = await train.load(bus, name)
    async with asyncio.timeout(60):
        return (await Train(bus, name, record).run(empty)).landed


async def test_one_of_two_that_landed_together_is_taken_back_and_what_came_later_stays(
    bus: Bus, repository: Path, start_node: Start
) -> None:
    await start_node()
    both = await changes(bus, repository, "echo x > one.txt", "echo x > two.txt")
    assert (await run(bus, repository, *both, slots=1)).landed == 2
    assert git(repository, "log", "--first-parent", "--format=%h").count("\n") == 1, "both in one commit"
    (repository / "later.txt").write_text("mine\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "a person's")
    assert await taken_back(bus, both[0]) == 3
    there = {path.name for path in repository.glob("*.txt")}
    assert there == {"a.txt", "b.txt", "two.txt", "later.txt"} and clean(repository)


@pytest.mark.long
async def test_all_that_a_goal_has_landed_is_taken_back_by_one_command(
    bus: Bus, repository: Path, start_node: Start
) -> None:
    await start_node()
    (one,) = await changes(bus, repository, "echo two >> a.txt")
    assert (await run(bus, repository, one)).landed == 1
    two, other, unlanded = await changes(
        bus, repository, "echo three >> a.txt", "echo x > other.txt", "echo x > unlanded.txt"
    )
    assert (await run(bus, repository, two, other)).landed == 3
    steps = {"a": GoalStep(orders=("gone", one)), "b": GoalStep(orders=(two,)), "c": GoalStep(orders=(unlanded,))}
    goal = GoalRecord(id="shop", root=str(repository), branch="main", steps=steps)
    await bus.put("goal.shop", encode(goal), expect=0)
    await bus.put("goal.idle", encode(GoalRecord(id="idle", branch="main")), expect=0)

    def typed(*words: str) -> Result:
        return CliRunner().invoke(treadle, ["land", "revert", *words])

    done = await asyncio.to_thread(typed, "--goal", "sho")
    assert done.exit_code == 0 and "landed as" in done.output, done.output
    assert (repository / "a.txt").read_text() == "one\n" and (repository / "other.txt").exists() and clean(repository)
    idle = await asyncio.to_thread(typed, "--goal", "idle")
    assert idle.exit_code != 0 and "idle has landed nothing on main" in str(idle.exception or idle.output)
    assert (await asyncio.to_thread(typed, one, "--goal", "shop")).exit_code == 2, "orders, or a goal"


async def landed(bus: Bus, order: str, line: str, branch: str = "main", **more: str | int) -> None:
    """The proof of a landing, with its order."""
    fields = {"tree": "t", "seq": 1, "on": f"on-{order}", "commit": f"as-{order}", **more}
    proof = LandedRecord(order=order, train=line, branch=branch, at=1.0, **fields)  # type: ignore[arg-type]
    await bus.put(f"landed.{order}.{line}", encode(proof), expect=0)
    if await bus.get(f"order.{order}") is None:
        made = Order(id=order, state="done", changed=1.0, title=f"title of {order}")
        await bus.put(f"order.{order}", encode(made), expect=0)


async def test_the_order_that_takes_back_names_what_and_who(bus: Bus) -> None:
    for line, branch in (("t1", "main"), ("t2", "rel")):
        record = TrainRecord(repository="/r", branch=branch, verify="make check")
        await bus.put(f"train.{line}", encode(record), expect=0)
    await landed(bus, "one", "t1", base="b 1", change="c1")
    await landed(bus, "two", "t1", seq=2)
    await landed(bus, "one", "t2", branch="rel")
    name, made = await train.revert(bus, ["one", "two"], branch="main")
    spec = await client.get_spec(bus, made)
    assert name == "t1" and (spec.agent, spec.verify, spec.land, spec.root) == (NULL, "", "main", "/r")
    assert spec.setup == (
        "git diff --binary --full-index as-two on-two | git apply --3way"
        " && git diff --binary --full-index c1 'b 1' | git apply --3way"
    )
    assert spec.title == "revert two, one: title of two" and spec.by == client.me()
    assert spec.task.endswith("\n\ngit diff on-two as-two   # title of two\ngit diff 'b 1' c1   # title of one")
    _, made = await train.revert(bus, ["two"], agent="codex", by="ann")
    spec = await client.get_spec(bus, made)
    assert (spec.agent, spec.setup, spec.verify, spec.by) == ("codex", "", "make check", "ann")
    with pytest.raises(ConfigError, match="one has landed on (main, rel|rel, main)"):
        await train.revert(bus, ["one"])
    with pytest.raises(NotFound, match="two has not landed on rel"):
        await train.revert(bus, ["two"], branch="rel")
    await landed(bus, "three", "t2", branch="rel")
    with pytest.raises(ConfigError, match="different branches"):
        await train.revert(bus, ["two", "three"])
    await landed(bus, "first", "t1", by="two")
    assert await train.landed_of(bus, ["one", "first", "two", "three", "none"], "main") == ["one", "two"]
    assert await train.landed_of(bus, ["one", "two", "three"], "rel") == ["one", "three"]


def test_what_an_order_changed_lies_between_two_commits_or_is_not_known() -> None:
    proof = LandedRecord(order="o", train="t", branch="main", commit="as", tree="t", seq=1, at=1.0, on="on")
    assert train._sides(proof) == ("on", "as")
    assert train._sides(replace(proof, base="b")) == train._sides(replace(proof, change="c")) == ("on", "as")
    assert train._sides(replace(proof, base="b", change="c")) == ("b", "c")
    with pytest.raises(NotFound, match="the changes of o are unknown"):
        train._sides(replace(proof, on=""))
