"""Terminals of orders: seen and typed into over HTTP, on whatever node they are; a look starts nothing."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.fleet.conftest import Start, give, spec
from tests.fleet.repositories import work
from tests.serve.api.test_terminals import screen_with
from tests.serve.conftest import WAIT, Web
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus


@pytest.mark.slow
async def test_the_terminal_of_an_order_is_seen_typed_into_and_has_a_shell_beside_it(
    web: Web, bus: Bus, start_node: Start, repository: Path
) -> None:
    await start_node()
    order = msgspec.structs.replace(work(repository, "any"), agent="acp:cat", terminal=True, task="hello loom")
    await give(bus, order)
    async with asyncio.timeout(WAIT):
        while (await web.http.get(f"/api/v1/terminals/fleet-{order.id}/screen")).status_code == 404:
            await asyncio.sleep(0.1)
    await screen_with(web, f"fleet-{order.id}", "hello loom")
    await web.post(f"/terminals/fleet-{order.id}/input", {"keys": ["a", "b", "Enter"]})
    await screen_with(web, f"fleet-{order.id}", "ab")
    scrolled = await web.get(f"/terminals/fleet-{order.id}/scrollback")
    assert "hello loom" in "\n".join(scrolled["lines"])
    unopened = await web.http.get(f"/api/v1/terminals/fleet-{order.id}-shell/screen")
    assert unopened.status_code == 404
    refused = await web.http.post(f"/api/v1/orders/{order.id}/shell", headers=web.headers("answer"))
    assert refused.status_code == 403
    opened = await web.post(f"/orders/{order.id}/shell")
    await web.post(
        f"/terminals/{opened['terminal']}/input", {"text": "echo $((40 + 2))", "enter": True, "anyway": True}
    )
    await screen_with(web, opened["terminal"], "42")
    await client.cancel(bus, order.id)
    assert (await client.wait(bus, order.id, 60)).state == "cancelled"


async def test_an_order_that_was_on_no_node_has_no_terminal(web: Web, bus: Bus) -> None:
    (name,) = await give(bus, spec())
    response = await web.http.get(f"/api/v1/terminals/fleet-{name}/screen")
    assert response.status_code == 404 and "on no node" in response.json()["detail"]
