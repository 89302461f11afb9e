"""`treadle land`, as a person types it: what lands, what is left out and why, and the exit code."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import git
from tests.landing.test_merging import Finished
from tests.landing.test_merging import finished as finished
from treadle.cli.root import treadle
from treadle.errors import NotFound
from treadle.fleet.engine.bus import Bus
from treadle.landing import explaining

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
    assert [each["order"] for each in row["left_out"]] == [bad]
    assert "main" in (await land("ls"))[1] and "its check failed twice" in (await land("show", "main"))[1]


async def test_a_change_is_taken_out_and_tried_again(bus: Bus, finished: Finished, repository: Path) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    assert (await as_json(one, "--verify", "false"))["left_out"][0]["kind"] == "red"
    assert (await land("eject", one))[0] == 0  # it had been sent back
    with pytest.raises(NotFound, match="no change of one waits in a train"):
        await land("eject", one)
    assert (await land("retry", one))[0] == 0
    assert (await as_json("show", "main"))["waiting"] == [one]
    assert (await land("eject", one))[0] == 0 and (await as_json("show", "main"))["left_out"][-1]["kind"] == "person"
    assert (await land("retry", one))[0] == 0
    found = await as_json("now", "--verify", "true")
    assert found["left_out"] == [] and git(repository, "log", "-1", "--format=%s") == "Land one: one"


async def test_a_paused_train_stands_still_and_says_who_paused_it(bus: Bus, finished: Finished) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    assert (await land("--verify", "true"))[0] == 0
    assert (await land("pause", "main", "--why", "a release"))[0] == 0
    code, said = await land(one)
    assert code == 3 and "the train of main stands still: a release" in said
    assert "a release" in (await land("show", "main"))[1] and "paused" in (await land("ls"))[1]
    assert (await land("resume", "main"))[0] == 0 and (await land(one))[0] == 0


async def test_a_train_that_is_not_there_is_said_so(bus: Bus) -> None:
    with pytest.raises(NotFound, match="0 trains fit 'main'"):
        await land("show", "main")


async def test_a_train_is_set_and_status_tells_the_age_of_its_oldest(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    assert (await land("--verify", "true"))[0] == 0 and (await land("pause", "main"))[0] == 0
    words = ("--slots", "3", "--policy", "serial", "--checks", "nodes", "--reconciler", "codex", "--verify", "false")
    assert (await land("set", "main", *words))[0] == 0 and (await land(one))[0] == 3
    (row,) = await as_json("ls")
    told = [row[name] for name in ("slots", "policy", "checks_on", "reconciler", "verify")]
    assert told == [3, "serial", "nodes", "codex", "false"]
    (standing,) = await explaining.standing(bus)
    assert (standing["waiting"], standing["paused"], standing["oldest"]) == (1, "paused", row["oldest"])


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


async def test_it_is_among_the_fleets_commands_too(bus: Bus, finished: Finished, repository: Path) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    words = ["fleet", "land", one, "--verify", "true"]
    done = await asyncio.to_thread(CliRunner().invoke, treadle, words)
    assert done.exit_code == 0 and f"landed   {one} as " in done.output and (repository / "new.txt").exists()
    assert (
        "treadle fleet land"
        in (await asyncio.to_thread(CliRunner().invoke, treadle, ["fleet", "land", "--help"])).output
    )
