"""The server without a fleet."""

import pytest

from tests.serve.conftest import Web
from treadle.serve.api import shares
from treadle.serve.server import WebServer


async def test_without_a_fleet_it_says_so_and_terminals_work(alone: Web) -> None:
    response = await alone.http.get("/api/v1/orders")
    assert response.status_code == 503 and response.json()["code"] == "no_fleet"
    assert "treadle fleet up" in response.json()["detail"] and response.headers["retry-after"]
    assert await alone.get("/terminals") == []
    assert (await alone.http.get("/readyz")).json()["state"] in ("none", "away")


def test_only_what_signs_in_and_the_page_itself_need_no_token() -> None:
    public = WebServer(address="https://fleet.example", names=("fleet.example",))._public
    assert all(map(public, ("/", "/login", "/healthz", "/readyz", "/ca", "/ca.crt", "/a/x", shares.STREAM)))
    assert not any(map(public, ("/api/v1/orders", "/metrics", "/openapi.json", "/socket", "/login/x", "/ab", "/a")))


@pytest.mark.parametrize(
    ("address", "cookie"),
    [
        ("http://127.0.0.1:7474", "treadle_7474"),
        ("https://fleet.example", "__Host-treadle_443"),
        ("https://fleet.example:8443", "__Host-treadle_8443"),
    ],
)
def test_each_server_of_a_machine_has_a_cookie_of_its_own(address: str, cookie: str) -> None:
    gate = WebServer(address=address, names=("fleet.example",)).gate
    assert gate.cookie == cookie and gate.secure == address.startswith("https:")


async def test_health_and_figures_are_told_to_who_may_see_them(alone: Web) -> None:
    assert (await alone.http.get("/healthz")).text == "ok\n"
    figures = await alone.http.get("/metrics")
    assert figures.status_code == 200 and figures.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert (await alone.http.get("/openapi.json")).json()["openapi"].startswith("3.")
    for path in ("/metrics", "/openapi.json", "/api/v1/terminals"):
        assert (await alone.http.get(path, headers={"authorization": ""})).status_code == 401
