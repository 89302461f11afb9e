"""`treadle land` and `blame`: what lands, what is left out and why, the exit code, and which order made a line."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli.fleet.commands import stored, typed
from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import git
from tests.landing.blamed import costing
from tests.landing.finished import Finished
from tests.landing.finished import finished as finished
from tests.landing.trains import run
from treadle.cli.root import treadle
from treadle.errors import ConfigError, NotFound
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import train, views
from treadle.wire.fleet.records import Used
from treadle.wire.goal.records import GoalRecord, GoalStep

CHECK = "! grep -qs bad *.txt"


async def land(*arguments: str) -> tuple[int, str]:
    result = await asyncio.to_thread(CliRunner().invoke, treadle, ["land", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


async def as_json(*arguments: str) -> Any:
    return json.loads((await land(*arguments, "--json"))[1])


@pytest.fixture(autouse=True)
def in_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)


async def test_orders_land_and_what_is_left_out_is_said_with_exit_code_3(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    good, bad = await finished.order("good", {"new.txt": "x\n"}), await finished.order("worse", {"c.txt": "bad\n"})
    code, said = await land(good, "--verify", CHECK)
    assert code == 0 and f"landed   {good} as " in said and (repository / "new.txt").exists()
    code, said = await land(bad)  # the check is kept for the branch
    assert code == 3 and f"left out {bad}: its check failed twice" in said and f"{bad}  sent back to its author" in said
    (row,) = await as_json("ls")
    assert (row["branch"], row["landed"], row["waiting"], row["verify"]) == ("main", 1, [], CHECK)
    assert row["left_out"] == [] and [each["first"] for each in row["back"]] == [bad], "someone helps it"
    assert "main" in (await land("ls"))[1] and "its check failed twice" in (await land("show", "main"))[1]


@pytest.mark.slow
async def test_a_change_is_taken_out_and_tried_again(bus: Bus, finished: Finished, repository: Path) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    assert (await as_json(one, "--verify", "false"))["left_out"][0]["kind"] == "red"
    assert (await land("eject", one))[0] == 0  # it had been sent back
    with pytest.raises(NotFound, match="one is in no train"):
        await land("eject", one)
    assert "is queued again for main" in await typed("again", one)
    assert (await as_json("show", "main"))["waiting"] == [one]
    assert (await land("eject", one))[0] == 0 and (await as_json("show", "main"))["left_out"][-1]["kind"] == "person"
    assert "is queued again for main" in await typed("again", one)
    found = await as_json("now", "--verify", "true")
    assert found["left_out"] == [] and git(repository, "log", "-1", "--format=%s") == "Land one: one"


async def test_a_train_is_set_and_status_tells_the_age_of_its_oldest(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    assert (await land("--verify", "true"))[0] == 0 and (await land("pause", "main"))[0] == 0
    words = ("--slots", "3", "--policy", "serial", "--checks", "nodes", "--reconciler", "codex", "--verify", "false")
    assert (await land("set", "main", "--notes", *words))[0] == 0 and (await land(one))[0] == 3
    (row,) = await as_json("ls")
    told = [row[name] for name in ("slots", "policy", "checks_on", "reconciler", "verify", "notes")]
    assert told == [3, "serial", "nodes", "codex", "false", True]
    (standing,) = await views.standing(bus)
    assert (standing["waiting"], standing["paused"], standing["oldest"]) == (1, "paused", row["oldest"])


@pytest.mark.slow
async def test_explain_says_why_it_waits_who_helps_and_what_landed(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one, bad = await finished.order("one", {"one.txt": "x\n"}), await finished.order("worse", {"c.txt": "bad\n"})
    assert "it is in no train" in (await land("explain", one))[1]
    code, said = await land(one, bad, "--verify", CHECK)
    assert code == 3 and f"{bad}  sent back to its author as " in said
    assert "which was checked" in (await land("explain", one))[1]
    (told,) = await as_json("explain", bad)
    helper = told["back"][0]["by"]
    said = (await land("explain", bad))[1]
    assert f"with     author: {helper} is queued" in said and "its check failed twice" in said
    assert (await land("eject", bad))[0] == 0
    assert "left out taken out by a person" in (await land("explain", bad))[1]


async def test_what_changed_nothing_is_told_and_what_is_given_stays_with_the_train(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    idle = await stored(bus, "idle", {"root": str(repository)})
    one = await finished.order("one", {"new.txt": "x\n"})
    with pytest.raises(ConfigError, match="no check is set for main"):
        await land(one)
    words = ("--verify", "true", "--setup", "true", "--slots", "4", "--reconciler", "codex")
    nothing = f"{idle}  nothing: it changed nothing"
    assert await land(idle, *words) == (0, f"{nothing}\n")
    found = await as_json(idle)
    assert (found["landed"], found["unchanged"], found["fates"]) == ([], [idle], {})
    assert not (repository / "new.txt").exists(), "what waits was not asked for"
    code, said = await land(idle, one)
    assert code == 0 and (repository / "new.txt").exists()
    first, landed = said.splitlines()[-2:]
    assert first == nothing and landed.startswith(f"{one}  landed as ")
    ((name, record),) = (await train.trains(bus)).items()
    assert (record.verify, record.setup, record.slots, record.reconciler) == ("true", "true", 4, "codex")
    for option, value, forge, token in (("--forge", "github", "github", ""), ("--token", "KEY", "github", "KEY")):
        with pytest.raises(ConfigError, match="a branch of the repository itself"):
            await land(one, option, value)
        record = (await train.trains(bus))[name]
        assert (record.forge, record.forge_token) == (forge, token)
    assert (await land("set", name, "--reconciler", ""))[0] == 0
    changed = (await train.trains(bus))[name]
    assert (changed.reconciler, changed.verify, changed.slots, changed.policy) == ("", "true", 4, "auto")


async def test_what_is_to_be_taken_back_is_named_once(bus: Bus, finished: Finished) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    for words in (("revert",), ("revert", one, "--goal", "g")):
        code, said = await land(*words)
        assert code == 2 and "Name the orders, or a goal with --goal." in said
    with pytest.raises(NotFound, match=f"{one} has not landed on next"):
        await land("revert", one, "--branch", "next")
    record = GoalRecord(id="g1", branch="main", steps={"s": GoalStep(orders=(one,))})
    await bus.put("goal.g1", encode(record))
    for more, where in (([], "main"), (["--branch", "next"], "next")):
        with pytest.raises(NotFound, match=f"the goal g1 has landed nothing on {where}") as nothing:
            await land("revert", "--goal", "g", *more)
        assert "`treadle goal show g1`" in str(nothing.value)


async def test_the_command_says_it_also_without_the_fleet(
    bus: Bus, finished: Finished, repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"}, project="export")
    await costing(bus, one, Used(input_tokens=1200, usd=0.25))
    await run(bus, repository, one)

    async def typed(*words: str) -> str:
        result = await asyncio.to_thread(CliRunner().invoke, treadle, ["blame", *words])
        assert result.exit_code == 0, result.output
        return result.output

    said = await typed(str(repository / "new.txt:1"))
    assert "proof     the fleet recorded this landing" in said
    assert f"order     {one}" in said and "goal      export" in said and "cost      1.2k 0.25 USD" in said
    assert json.loads(await typed(str(repository / "a.txt:1"), "--json")).get("order") is None
    head = git(repository, "rev-list", "--max-parents=0", "HEAD")[:12]
    lines = (await typed(str(repository / "a.txt:1"))).splitlines()
    assert lines[0] == "a.txt:1  one" and lines[1].startswith(f"no order: commit {head} of ")
    assert lines[1].endswith(" by t: start") and len(lines) == 2
    assert "the fleet was not asked" not in said and "\nwhy       one\n" in said
    first = await typed(str(repository / "new.txt:1"), "--at", "HEAD", "--json")
    assert json.loads(first)["order"] == one
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "elsewhere"))
    alone = await typed(str(repository / "new.txt:1"))
    assert "proof     not here: order, goal, agent and receipt are claimed by the commit" in alone
    assert f"order     {one}" in alone and "cost      not known here" in alone and "the fleet was not asked" in alone
