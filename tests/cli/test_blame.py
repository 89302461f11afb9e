"""`treadle blame`: said also where the fleet is not."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import git
from tests.landing.blamed import costing
from tests.landing.test_merging import Finished
from tests.landing.test_merging import finished as finished
from tests.landing.trains import run
from treadle.cli.fleet.land import _origin_facts
from treadle.cli.root import treadle
from treadle.fleet.engine.bus import Bus
from treadle.landing.blame import LineOrigin
from treadle.wire.fleet.records import Used

LINE = LineOrigin(
    file="a", line=1, text="x", commit="c" * 40, at=1.0, author="ann", subject="s", order="o1", goal="ex\nport",
    agent="native", receipt="r" * 64, tree="t" * 40, proved=True, title="the title", task="the\ntask", verify="make",
    first="o0", used=Used(input_tokens=900, usd=0.5),
)  # fmt: skip
BARE = LineOrigin(file="a", line=1, text="x", commit="c" * 40, at=1.0, author="ann", subject="s", order="o1")


def test_what_is_known_of_a_line_is_told_and_the_rest_is_left_empty() -> None:
    assert _origin_facts(LINE, "DAY") == {
        "order": "o1, for o0, which had been sent back",
        "goal": "ex port",
        "why": "the task",
        "agent": "native",
        "cost": "900 0.50 USD",
        "landed": "cccccccccccc of DAY",
        "checked": "make, tree tttttttttttt",
        "receipt": f"sha256 {'r' * 64}",
    }
    told = {name: value for name, value in _origin_facts(BARE, "DAY").items() if value}
    assert told == {"order": "o1", "cost": "not known here", "landed": "cccccccccccc of DAY"}
    odd = _origin_facts(replace(LINE, proved=False, task="", verify="", used=Used(usd=0.0)), "DAY")
    assert odd["landed"] == "cccccccccccc of DAY, which the fleet did not record: someone else made this commit"
    assert (odd["why"], odd["checked"], odd["cost"]) == ("the title", "yes, tree tttttttttttt", "nothing was measured")


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
    assert f"order     {one}" in alone and "cost      not known here" in alone and "the fleet was not asked" in alone
