"""What has landed is taken back by an order that lands like anything else."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.fleet.conftest import Start, give, spec
from tests.fleet.conftest import start_node as start_node
from tests.fleet.repositories import git
from tests.landing.test_merging import clean
from tests.landing.trains import CHECK, empty, run
from treadle.cli.root import treadle
from treadle.errors import ConfigError, NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import merging, reverting, train
from treadle.landing.train import Train
from treadle.wire.goal.records import GoalRecord, GoalStep


async def changes(bus: Bus, repository: Path, *commands: str) -> list[str]:
    """Orders without an agent that have done this, on the branch as it is."""
    base = git(repository, "rev-parse", "main")
    made = [spec(root=str(repository), base=base, setup=command) for command in commands]
    await give(bus, *made)
    assert [(await client.wait(bus, each.id, 60)).state for each in made] == ["done"] * len(made)
    return [each.id for each in made]


async def taken_back(bus: Bus, *orders: str) -> int:
    name, made = await reverting.revert(bus, list(orders))
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


async def test_several_are_taken_back_at_once_and_what_never_landed_is_refused(
    bus: Bus, repository: Path, start_node: Start
) -> None:
    await start_node()
    (one,) = await changes(bus, repository, "echo two >> a.txt")
    assert (await run(bus, repository, one)).landed == 1
    (two,) = await changes(bus, repository, "echo three >> a.txt")
    assert (await run(bus, repository, two)).landed == 2
    assert await taken_back(bus, one, two) == 3 and (repository / "a.txt").read_text() == "one\n"
    with pytest.raises(NotFound, match="bad has not landed on any branch"):
        await reverting.revert(bus, ["bad"])
    assert (await train.load(bus, train.name_of(str(repository / ".git"), "main")))[0].verify == CHECK


KILLED = """
import asyncio, os, signal, sys
from treadle.fleet.client import connected
from treadle.landing import bench, merging
real = bench.Bench.move
def dies(*args):
    real(*args)
    os.kill(os.getpid(), signal.SIGKILL)
bench.Bench.move = dies
async def main():
    async with connected() as bus:
        await merging.merge(bus, [sys.argv[1]], sys.argv[2])
asyncio.run(main())
"""


async def test_what_was_merged_by_hand_is_taken_back_too_also_when_the_merge_was_killed(
    bus: Bus, repository: Path, start_node: Start
) -> None:
    await start_node()
    one, two = await changes(bus, repository, "echo 1 > one.txt", "echo 2 > two.txt")
    (step,) = await merging.merge(bus, [one], str(repository))
    argv = [sys.executable, "-c", KILLED, two, str(repository)]
    assert (await asyncio.to_thread(subprocess.run, argv)).returncode == -signal.SIGKILL and step.merged
    with pytest.raises(NotFound, match="has not landed"):
        await reverting.revert(bus, [two])
    (again,) = await merging.merge(bus, [two], str(repository))
    assert again.merged and again.why == "it is on the branch already"
    with pytest.raises(ConfigError, match="no check is set for main"):
        await reverting.revert(bus, [one, two])
    await train.ensure(bus, str(repository), "main", verify=CHECK)
    assert await taken_back(bus, one, two) == 1
    assert not (repository / "one.txt").exists() and not (repository / "two.txt").exists() and clean(repository)


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
