"""A vendor's limit of days: the order lands with another vendor, unattended, and nothing is done twice."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import DONE, bash, git, model, other_agents, says, write
from tests.installed import treadle
from treadle.agent.providers.script import load
from treadle.testing.server import ModelServer, parse

pytestmark = pytest.mark.slow

DAYS = 3 * 86400
BEGINS = says(
    "I keep the names because of users.",
    bash("echo begun >> log.txt"),
    write("half.txt"),
    usage={"input": 100, "output": 10},
)
ENDS = says(
    "I do the rest.",
    bash("echo ended >> log.txt"),
    when="(?s)half.txt.*keep the names because of users",
    turn=1,
    usage={"input": 50, "output": 5},
)


@pytest.fixture
async def limited(nothing_left: None, tmp_path: Path) -> AsyncIterator[ModelServer]:
    """It answers once; then the account is at its limit for three days."""
    script = model(tmp_path, BEGINS, DONE, name="limited").removeprefix("scripted:")
    faults = [parse("ok"), *[parse(f"429:{DAYS}")] * 100]
    async with ModelServer(load(script), faults=faults) as server:
        yield server


async def typed(*arguments: str, cwd: Path, env: dict[str, str]) -> str:
    done = await asyncio.to_thread(treadle, *arguments, cwd=cwd, env=env)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


async def test_at_a_limit_of_days_the_order_lands_with_another_vendor(
    limited: ModelServer, repository: Path, tmp_path: Path
) -> None:
    other_agents(other=model(tmp_path, ENDS, DONE, name="other"))
    env = {**os.environ, "TREADLE_BASE_URL": f"{limited.url}/v1"}

    async def fleet(*arguments: str) -> str:
        return await typed(*arguments, cwd=repository, env=env)

    await fleet("fleet", "up", "--slots", "1")
    given = ("port it", "--agent", "native", "--model", "chat:m", "--mode", "yolo", "--fallback", "other")
    order = (await fleet("fleet", "submit", *given, "--verify", "test -s log.txt", "--land", "main")).split()[0]
    await fleet("fleet", "wait", order)
    async with asyncio.timeout(60):
        while "half.txt" not in git(repository, "ls-files"):
            await asyncio.sleep(0.05)
    assert (repository / "log.txt").read_text() == "begun\nended\n", "nothing was done twice"
    shown: dict[str, Any] = json.loads(await fleet("fleet", "show", order, "--json"))
    first, last = shown["order"]["attempts"]
    assert [first["agent"], last["agent"]] == ["native", "other"] and last["outcome"] == "done"
    (change,) = shown["order"]["handed"]
    assert change["reason"] == "usage_limit", change
    used = shown["order"]["used"]
    assert (used["input_tokens"], used["output_tokens"]) >= (150, 15), "what both used counts"
    assert "other replaces native: its account is at a limit" in await fleet("fleet", "explain", order)
