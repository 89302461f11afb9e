"""Giving orders: stored when it returns, refused when it cannot be one, the same for the same key."""

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Start, give, spec, until_state
from treadle.errors import ConfigError, StorageError, TreadleError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import new_id
from treadle.fleet.submission import KeyUsed, made, refuse_if_stuck
from treadle.wire.fleet.orders import HERE, OrderRequest


async def test_the_same_key_gives_the_same_order_for_ever(bus: Bus, start_node: Start) -> None:
    await start_node()
    order = spec(id=new_id("nightly 7"))
    first, second = (await client.submit(bus, [order]))[0], (await client.submit(bus, [order]))[0]
    await client.wait(bus, first.id, 60)
    third = (await client.submit(bus, [order]))[0]
    assert first.new and not second.new and not third.new and first.id == second.id == third.id
    assert (await client.get_order(bus, first.id)).attempt == 1


async def test_orders_are_kept_while_there_is_no_scheduler(bus: Bus, start_node: Start) -> None:
    names = await give(bus, spec(), spec())
    assert [order.state for order, _ in await client.list_orders(bus)] == ["queued", "queued"]
    waits = (await client.why(bus, names[0])).waits
    assert waits is not None and "no scheduler" in waits.text
    await start_node()
    assert [(await client.wait(bus, name, 60)).state for name in names] == ["done", "done"]


async def test_what_cannot_be_an_order_is_refused_before_it_is_stored(bus: Bus) -> None:
    for wrong in (spec(priority=11), spec(claims=("",)), spec(id="Has Spaces")):
        with pytest.raises(ConfigError):
            await client.submit(bus, [wrong])
    assert await bus.keys("spec.*") == []


async def test_an_order_that_another_program_wrote_wrongly_fails_with_a_receipt(bus: Bus, start_node: Start) -> None:
    await start_node()
    await bus.put("spec.foreign", b'{"id": "foreign"}', expect=0)
    await bus.put("spec.other", b'{"id": "other", "task": "x", "priority": 44}', expect=0)
    for name in ("foreign", "other"):
        order = await until_state(bus, name, "failed")
        assert order.why and await client.get_receipt(bus, name) is not None


async def test_an_engine_that_stores_what_others_give_it_is_slow_and_not_full(bus: Bus) -> None:
    first = await refuse_if_stuck(bus, "o1", -1)
    await bus.put("node.other", b"{}")
    assert await refuse_if_stuck(bus, "o1", first) > first
    with pytest.raises(StorageError, match="has stored nothing since the last try") as refused:
        await refuse_if_stuck(bus, "o1", await refuse_if_stuck(bus, "o1", -1))
    assert "whether its disk is full" in str(refused.value.hint)


def test_an_order_has_what_was_asked_for_and_where_it_starts_from(repository: Path, tmp_path: Path) -> None:
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=repository, text=True).strip()
    asked = OrderRequest(task="t", root=str(repository), agent="a", priority=7, key="k")
    order = made(asked, by="ana")
    assert (order.task, order.agent, order.priority, order.by) == ("t", "a", 7, "ana")
    assert (order.root, order.base, order.id) == (str(repository), head, new_id("k"))
    assert (
        order.asked
        == made(replace(asked, not_before=5.0), by="bob").asked
        != made(replace(asked, task="u"), by="").asked
    )
    assert made(replace(asked, base="main", key=""), by="").base == head, "a name may mean another commit later"
    assert made(replace(asked, base="0" * 40, key=""), by="").base == "0" * 40
    with pytest.raises(TreadleError, match="has no branch or commit 'mian'") as mistyped:
        made(replace(asked, base="mian", key=""), by="")
    assert mistyped.value.hint == "did you mean main?"
    assert made(replace(asked, key=""), by="").asked == "" and made(OrderRequest(task="t"), by="").root == ""
    assert made(replace(asked, in_place=True), by="").base == ""
    landing = made(replace(asked, land=HERE), by="")
    assert landing.base == "" and landing.land and landing.land != HERE
    with pytest.raises(ConfigError, match="not in a git repository"):
        made(OrderRequest(task="t", root=str(tmp_path), land=HERE), by="")


async def test_a_key_that_was_used_for_another_order_is_refused_and_many_are_given_at_once(bus: Bus) -> None:
    one = made(OrderRequest(task="t", key="k"), by="ana")
    assert (await client.submit(bus, [one]))[0].new and not (await client.submit(bus, [one]))[0].new
    other = made(OrderRequest(task="u", key="k"), by="ana")
    with pytest.raises(KeyUsed, match=f"this key was used before for another order, {one.id}") as refused:
        await client.submit(bus, [other])
    assert refused.value.hint == "use another key; the same key is for submitting the same once more"
    assert not (await client.submit(bus, [replace(other, asked="")]))[0].new
    many = [spec() for _ in range(70)]
    assert [each.id for each in await client.submit(bus, many)] == [each.id for each in many]


def test_work_lands_on_a_branch_that_is_there_or_of_a_remote_that_is_named(repository: Path, tmp_path: Path) -> None:
    asked = OrderRequest(task="t", root=str(repository))
    assert (
        made(replace(asked, land=HERE), by="").land == "main"
        and made(replace(asked, land="main"), by="").land == "main"
    )
    with pytest.raises(TreadleError, match="nowhere"):
        made(replace(asked, land="nowhere"), by="")
    with pytest.raises(TreadleError, match="has no remote 'origin'"):
        made(replace(asked, land="origin:main"), by="")
    subprocess.run(["git", "remote", "add", "origin", str(tmp_path)], cwd=repository, check=True)
    assert made(replace(asked, land="origin:main"), by="").land == "origin:main"
    assert made(OrderRequest(task="t", root="/nowhere/on/this/machine", land="x"), by="").land == "x"
    with pytest.raises(ConfigError) as refused:
        made(OrderRequest(task="t", root=str(tmp_path), land=HERE), by="")
    assert refused.value.hint == "name it: --land BRANCH"
    home = made(OrderRequest(task="t", root="~"), by="")
    assert home.root == str(Path.home()) and home.base == "" and home.created > 1e9
