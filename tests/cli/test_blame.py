"""`treadle blame`: said also where the fleet is not."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.landing.blamed import costing
from tests.landing.test_merging import Finished
from tests.landing.test_merging import finished as finished
from tests.landing.trains import run
from treadle.cli.root import treadle
from treadle.fleet.engine.bus import Bus
from treadle.wire.fleet.records import Used


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
    assert "no order: commit" in await typed(str(repository / "a.txt:1"))
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "elsewhere"))
    alone = await typed(str(repository / "new.txt:1"))
    assert f"order     {one}" in alone and "cost      not known here" in alone and "the fleet was not asked" in alone
