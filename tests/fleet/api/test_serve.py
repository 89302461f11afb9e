"""The server, with a fleet and without one, and where it may listen."""

import socket

import pytest

from tests.fleet.api.conftest import Web
from treadle.errors import ConfigError
from treadle.fleet.api.listening import Listening


async def test_without_a_fleet_it_says_so_and_terminals_work(alone: Web) -> None:
    response = await alone.http.get("/api/v1/orders")
    assert response.status_code == 503 and response.json()["error"]["code"] == "no_fleet"
    assert "treadle fleet up" in response.json()["error"]["message"] and response.headers["retry-after"]
    assert await alone.get("/terminals") == []
    assert (await alone.http.get("/readyz")).json()["state"] in ("none", "away")


def test_an_address_that_others_reach_needs_encryption_and_a_name() -> None:
    with pytest.raises(ConfigError, match="plain text"):
        Listening(host="0.0.0.0", port=0)
    with pytest.raises(ConfigError, match="by which name"):
        Listening(host="0.0.0.0", port=0, behind_proxy=True)
    proxied = Listening(host="127.0.0.1", port=0, behind_proxy=True, names=("fleet.example",))
    proxied.socket.close()
    assert proxied.address == "https://fleet.example"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match="cannot listen"):
            Listening(port=taken.getsockname()[1])
