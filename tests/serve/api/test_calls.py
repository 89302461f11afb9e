"""A request that is wrong is told so, always in the same form."""

from typing import Any

from tests.serve.conftest import Web


async def test_what_is_wrong_with_a_request_is_told_in_one_form(web: Web) -> None:
    async def refused(method: str, path: str, status: int, code: str, **options: Any) -> None:
        response = await web.http.request(method, f"/api/v1{path}", **options)
        assert response.status_code == status, response.text
        error = response.json()["error"]
        assert error["code"] == code and error["message"] and error["retryable"] in (True, False)

    await refused("GET", "/orders/nobody", 404, "not_found")
    await refused("GET", "/orders?count=0", 400, "bad_request")
    await refused("GET", "/orders?colour=red", 400, "bad_request")
    await refused("GET", "/orders?state=happy", 400, "bad_request")
    await refused("POST", "/orders", 400, "bad_request", json={"agent": "null"})
    await refused("POST", "/orders", 400, "bad_request", content=b"{", headers={"content-type": "application/json"})
    await refused("POST", "/orders", 415, "unsupported_media_type", content=b"task=x")
    deep = b"[" * 100_000
    await refused("POST", "/orders", 400, "bad_request", content=deep, headers={"content-type": "application/json"})
    await refused("POST", "/orders", 422, "config_error", json={"task": "   "})
    await refused("POST", "/pause", 422, "config_error", json={"scope": "everything"})
    given = await web.post("/orders", {"task": "x", "agent": "null"}, status=201)
    await refused("POST", f"/orders/{given['id']}/retry", 409, "local_error")
    await refused("GET", f"/orders/{given['id']}/receipt", 404, "not_found")
    await refused("POST", f"/orders/{given['id']}/answer", 404, "not_found", json={"decision": "allow"})
    method = await web.http.request("PATCH", "/api/v1/orders")
    assert method.status_code == 405
