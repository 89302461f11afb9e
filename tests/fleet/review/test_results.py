"""What came of orders: a branch and a patch."""

import asyncio
from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import edits, git, work
from treadle.errors import LocalError, NotFound
from treadle.fleet import client, results
from treadle.fleet.engine import streams
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.fleet.run import trees
from treadle.io.sandbox import methods
from treadle.receipts.expecting import facts
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order, OrderReceipt
from treadle.wire.sidecar.receipts import decode_exact, receipt_hash
from treadle.workspace import checkouts


@pytest.mark.slow
async def test_work_comes_back_as_a_branch_and_a_patch_and_is_thrown_away(
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
    await results.discard(bus, clash.id)
    assert f"treadle/{clash.id}" not in git(repository, "branch", "--list", "treadle/*")
    worktrees = git(repository, "worktree", "list").splitlines()
    async with asyncio.timeout(60):
        while len(worktrees) > 1:
            await asyncio.sleep(0.05)
            worktrees = git(repository, "worktree", "list").splitlines()


async def stored(bus: Bus, name: str, state: str = "done", **result: object) -> Order:
    made = Order(id=name, state=state, changed=1.0, result=result)  # type: ignore[arg-type]
    await bus.put(f"order.{name}", encode(made))
    return made


async def test_what_is_not_there_says_whether_it_will_be(bus: Bus) -> None:
    await stored(bus, "o1", "running")
    await stored(bus, "o2")
    for name, why in (("o1", "has not ended yet"), ("o2", "has no changes")):
        with pytest.raises(NotFound, match=f"the order {name} {why}"):
            await results.diff(bus, name)
    with pytest.raises(NotFound, match="the order o1 has not ended yet, so no run has a receipt") as refused:
        await results.run_receipt(bus, "o1")
    assert refused.value.hint == "`treadle fleet show`"
    await bus.put("receipt.o1", encode(OrderReceipt(order="o1", outcome="done")))
    with pytest.raises(NotFound, match="was done, or ended, without a run of an agent"):
        await results.run_receipt(bus, "o1")
    await bus.put("receipt.o1", encode(OrderReceipt(order="o1", outcome="done", run={"a": 1})))
    assert await results.run_receipt(bus, "o1") == b'{"a":1}'
    await streams.put(bus, "big", b"stored apart")
    await bus.put("receipt.o1", encode(OrderReceipt(order="o1", outcome="done", run={"object": "big"})))
    assert await results.run_receipt(bus, "o1") == b"stored apart"
    with pytest.raises(LocalError, match="the order o1 has not ended: it is running") as early:
        await results.discard(bus, "o1")
    assert early.value.hint == "cancel it first"


async def test_work_began_where_the_first_of_those_that_continue_each_other_did(bus: Bus) -> None:
    for name, continues, base, result in (
        ("a", "", "b0", {"base": "b0", "commit": "c1"}),
        ("b", "a", "c1", {"base": "c1", "commit": "c2"}),
        ("c", "b", "c2", {"base": "c2", "commit": "c3"}),
        ("d", "c", "elsewhere", {"base": "elsewhere", "commit": "c4"}),
    ):
        await bus.put(f"spec.{name}", encode(Spec(id=name, task="t", continues=continues, base=base)))
        await stored(bus, name, **result)
    found = [await results.began_from(bus, await client.get_order(bus, name)) for name in "abcd"]
    assert found == ["b0", "b0", "b0", "elsewhere"]


async def test_commits_come_from_their_bundle_or_from_the_branch_that_is_still_here(
    bus: Bus, repository: Path, tmp_path: Path
) -> None:
    user = checkouts.around(str(repository))
    base = git(repository, "rev-parse", "HEAD")
    clone = tmp_path / "clone"
    git(repository, "clone", "-q", str(repository), str(clone))
    git(clone, "commit", "-q", "--allow-empty", "-m", "made elsewhere")
    commit = git(clone, "rev-parse", "HEAD")
    order = await stored(bus, "o1", commit=commit, base=base)
    with pytest.raises(NotFound, match="the order o1 has no bundle"):
        await results.here(bus, order, user)
    git(clone, "branch", trees.branch_name("o1"))
    data, ref = await results.bundle_of(bus, order, checkouts.around(str(clone)))
    assert ref == f"refs/heads/{trees.branch_name('o1')}"
    await streams.put(bus, "made", data)
    order = await stored(bus, "o1", commit=commit, base=base, bundle="made", branch="x")
    assert (await results.bundle_of(bus, order, user))[0] == data
    await results.here(bus, order, user)
    assert git(repository, "rev-parse", f"refs/treadle/{commit}") == commit
    await results.here(bus, await stored(bus, "o1", commit=commit), user)  # it is here, so nothing is fetched
