"""What came of orders: a branch, a patch, and a merge that stops at the first conflict."""

import asyncio
from pathlib import Path

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import edits, git, work
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.review import results
from treadle.io.sandbox import methods
from treadle.landing import merging
from treadle.receipts.expecting import facts
from treadle.wire.sidecar.receipts import decode_exact, receipt_hash


async def test_work_comes_back_as_a_branch_and_a_patch_and_is_merged_in_order(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    setup = f"test -e .env && touch made; touch {tmp_path}/outside; test -e made"
    first = work(repository, edits(tmp_path, "x", "a.txt", "two"), bring=(".env",), setup=setup)
    clash = work(repository, edits(tmp_path, "y", "a.txt", "three"))
    other = work(repository, edits(tmp_path, "z", "b.txt", "two"), verify="test $(cat b.txt) = two")
    await give(bus, first, clash, other)
    ended = [await client.wait(bus, each.id, 90) for each in (first, clash, other)]
    assert [order.state for order in ended] == ["done"] * 3, [order.why for order in ended]
    assert ended[0].used.calls == 2 and ended[0].used.input_tokens >= 100 and ended[0].used.usd is None
    assert ended[2].result["verified"] is True
    assert ended[0].result["changed"] == ["a.txt", "made"]
    assert (tmp_path / "outside").exists() == (methods.available().method is None), "the setup is confined as well"
    assert b"+two" in await results.diff(bus, first.id)
    run = decode_exact(await results.run_receipt(bus, other.id))
    assert run.receipt_sha256 == receipt_hash(run) and facts(run)["verified"] == "yes"
    async with asyncio.timeout(60):
        while f"treadle/{other.id}" not in git(repository, "branch", "--list", "treadle/*"):
            await asyncio.sleep(0.05)
    steps = await merging.merge(bus, [first.id, other.id, clash.id], str(repository), verify="test -e a.txt")
    assert [step.merged for step in steps] == [True, True, False] and steps[2].conflicts == ("a.txt",)
    assert (repository / "a.txt").read_text() == "two" and git(repository, "status", "--porcelain") == ""
    await results.discard(bus, clash.id)
    assert f"treadle/{clash.id}" not in git(repository, "branch", "--list", "treadle/*")
    worktrees = git(repository, "worktree", "list").splitlines()
    async with asyncio.timeout(60):
        while len(worktrees) > 1:
            await asyncio.sleep(0.05)
            worktrees = git(repository, "worktree", "list").splitlines()
