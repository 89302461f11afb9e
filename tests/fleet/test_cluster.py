"""A fleet on servers that are not its own: a cluster of three with TLS, and one that asks for credentials."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet import cluster
from tests.fleet.conftest import spec
from treadle.errors import LocalError, TreadleError
from treadle.fleet import client, up
from treadle.fleet.engine import layout, places
from treadle.fleet.engine.bus import EVENTS, STATE, Bus

pytestmark = pytest.mark.slow


async def joined(url: str, **options: object) -> None:
    """`treadle fleet up --nats`, as soon as the servers have found each other."""
    async with asyncio.timeout(90):
        while True:
            try:
                await up.up(name="n1", url=url, **options)  # type: ignore[arg-type]
                return
            except TreadleError as error:
                assert not isinstance(error, LocalError) or "fleet at" not in str(error), error
                await asyncio.sleep(0.3)


@pytest.fixture
def down() -> Iterator[None]:
    yield
    if Path(places.root()).exists():
        asyncio.run(up.down())


async def test_orders_survive_the_death_of_the_server_that_leads_a_stream(tmp_path: Path, down: None) -> None:
    with cluster.three(tmp_path) as (url, ca, servers):
        await joined(url, ca=ca, replicas=3, lease=15.0, slots=4)
        try:
            async with client.connected() as bus:
                info = await bus.api(f"STREAM.INFO.{STATE}")
                assert info["config"]["num_replicas"] == 3
                orders = [spec("null:1:3") for _ in range(8)]
                await client.submit(bus, orders)
                leader = next(each for each in servers if each.place.name == info["cluster"]["leader"])
                leader.kill()
                ended = [await client.wait(bus, order.id, 120) for order in orders[:4]]
                leader.start()
                ended += [await client.wait(bus, order.id, 120) for order in orders[4:]]
                assert [order.state for order in ended] == ["done"] * 8
                for order in orders:
                    seen = [one.n async for one in client.events(bus, order.id) if not one.end]
                    assert seen[-3:] == [1, 2, 3]
                    assert await client.get_receipt(bus, order.id) is not None
        finally:
            await up.down()


async def test_a_server_with_credentials_is_joined_and_who_has_none_is_refused(tmp_path: Path, down: None) -> None:
    with cluster.with_credentials(tmp_path) as (url, creds):
        await joined(url, creds=creds)
        try:
            async with client.connected() as bus:
                order = spec()
                await client.submit(bus, [order])
                assert (await client.wait(bus, order.id, 60)).state == "done"
            with pytest.raises(TreadleError, match="does not accept these credentials"):
                await Bus.connect(places.Fleet(url=url).address("admin"), name="nobody")
        finally:
            await up.down()


async def test_a_plain_client_is_told_that_the_authority_is_unknown(tmp_path: Path) -> None:
    with cluster.three(tmp_path) as (url, _, _):
        with pytest.raises(TreadleError, match="certificate"):
            async with asyncio.timeout(60):
                while True:
                    try:
                        await Bus.connect(places.Fleet(url=url).address("admin"), name="nobody")
                    except TreadleError as error:
                        if "refused" not in str(error) and "Multiple" not in str(error):
                            raise
                        await asyncio.sleep(0.1)


def test_copies_are_asked_of_every_stream() -> None:
    assert {one["num_replicas"] for one in layout.streams(3)} == {3}
    assert EVENTS in {one["name"] for one in layout.streams(3)}
