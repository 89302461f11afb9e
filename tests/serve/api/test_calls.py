"""A request that is wrong is told so, always in the same form."""

import asyncio
from typing import Any

from tests.serve.conftest import Web


async def test_what_is_wrong_with_a_request_is_told_in_one_form(web: Web) -> None:
    async def refused(method: str, path: str, status: int, code: str, **options: Any) -> None:
        response = await web.http.request(method, f"/api/v1{path}", **options)
        assert response.status_code == status, response.text
        problem = response.json()
        assert response.headers["content-type"] == "application/problem+json", path
        assert problem["code"] == code and problem["type"].endswith(f":{code}") and problem["detail"], problem
        assert problem["status"] == status and problem["title"]

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
    await refused("GET", "/nothing/here", 404, "not_found")
    await refused("PATCH", "/orders", 405, "method_not_allowed")
    for name in ("%20", "a%20b", "%2e%2e", "x" * 101, "ö"):
        await refused("GET", f"/orders/{name}", 400, "bad_request")


async def test_what_was_read_before_is_not_sent_again_and_long_answers_are_compressed(web: Web) -> None:
    for number in range(20):
        await web.post("/orders", {"task": f"say {number}", "agent": "null", "not_before": 4e9}, status=201)
    async with asyncio.timeout(60):
        while (await web.get("/orders"))["total"] < 20:
            await asyncio.sleep(0.02)
    plain = await web.http.get("/api/v1/orders", headers={"accept-encoding": "identity"})
    packed = await web.http.get("/api/v1/orders", headers={"accept-encoding": "br, gzip"})
    assert "content-encoding" not in plain.headers and packed.headers["content-encoding"] == "gzip"
    assert plain.json() == packed.json()
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 3
    same = await web.http.get("/api/v1/orders", headers={"if-none-match": plain.headers["etag"]})
    assert same.status_code == 304 and same.content == b"" and same.headers["cache-control"] == "no-store"
    other = await web.http.get("/api/v1/orders?state=done", headers={"if-none-match": plain.headers["etag"]})
    assert other.status_code == 200


async def test_a_key_gives_the_same_order_and_is_refused_for_another(web: Web) -> None:
    async def submit(**body: Any) -> Any:
        given = {"task": "x", "agent": "null", **body}
        return await web.http.post("/api/v1/orders", json=given, headers={"idempotency-key": "one"})

    first, same, other = await submit(), await submit(), await submit(priority=9)
    assert (first.status_code, same.status_code, other.status_code) == (201, 200, 409)
    assert same.json()["id"] == first.json()["id"] and other.json()["code"] == "key_used"
