"""The server without a fleet."""

from tests.serve.conftest import Web


async def test_without_a_fleet_it_says_so_and_terminals_work(alone: Web) -> None:
    response = await alone.http.get("/api/v1/orders")
    assert response.status_code == 503 and response.json()["code"] == "no_fleet"
    assert "treadle fleet up" in response.json()["detail"] and response.headers["retry-after"]
    assert await alone.get("/terminals") == []
    assert (await alone.http.get("/readyz")).json()["state"] in ("none", "away")
