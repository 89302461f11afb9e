"""A request that is wrong is told so, always in the same form."""

import asyncio
from typing import Any

import httpx2
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse

from tests.serve.conftest import Web
from treadle.serve.api import calls
from treadle.serve.api.calls import ApiCall, Asking, RequestBody, call
from treadle.serve.site import Site
from treadle.serve.tokens import Device, Right, Tokens


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    words: tuple[str, ...] = ()
    count: int = 1


class Given(RequestBody, frozen=True, kw_only=True):
    text: str = "nothing"


async def echo(asking: Asking) -> Any:
    """Say it back.

    All of it."""
    return {"query": asking.query, "body": asking.body, "by": asking.by}


async def plain(asking: Asking) -> Any:
    return PlainTextResponse(asking.path("id"))


TABLE = [
    ApiCall("GET", "/echo", "watch", echo, Wanted, None, None, 200, False),
    ApiCall("POST", "/echo", "answer", echo, None, Given, None, 201, False),
    ApiCall("PUT", "/echo", "all", echo, None, Given, None, 200, True),
    ApiCall("GET", "/plain/{id}", "watch", plain, None, None, None, 200, False),
]


def client(right: Right | None, name: str = "phone") -> httpx2.AsyncClient:
    """A client of these calls, as they come behind the gate."""
    site = Site("http://127.0.0.1:1", "", Tokens())
    app = Starlette(routes=calls.routes(site, TABLE))
    device = Device(id="d", name=name, right=right, created=0.0, sha256="") if right else None

    async def behind_the_gate(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "device": device}, receive, send)

    transport = httpx2.ASGITransport(app=behind_the_gate)
    return httpx2.AsyncClient(transport=transport, base_url="http://x/api/v1")


async def test_a_call_has_its_query_its_body_and_who_makes_it() -> None:
    site = Site("", "", Tokens())
    async with client("all") as http:
        found = (await http.get("/echo?words=a&words=&words=b&count=2&count=3")).json()
        assert found == {
            "query": {"words": ["a", "b"], "count": 3},
            "body": None,
            "by": f"{site.user} (phone)",
        }
        assert (await http.get("/echo")).json()["query"] == {"words": [], "count": 1}
        made = await http.post("/echo", content=b'{"text": "x"}', headers={"content-type": "Application/JSON; a=b"})
        assert (made.status_code, made.json()["body"], made.json()["query"]) == (201, {"text": "x"}, None)
        assert (await http.put("/echo")).json()["body"] == {"text": "nothing"}
        assert (await http.get("/plain/abc")).text == "abc"
        head = await http.head("/echo")
        assert (head.status_code, head.content) == (200, b"")
        assert (await http.delete("/echo")).status_code == 405
    async with client("all", name="") as http:
        assert (await http.get("/echo")).json()["by"] == site.user


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "detail"),
    [
        ("GET", "/echo?word=a&amount=1", {}, 400, "there is no parameter 'amount'"),
        ("GET", "/echo?count=many", {}, 400, "$.count"),
        ("POST", "/echo", {}, 415, "must be application/json"),
        ("POST", "/echo", {"json": {"txt": "x"}}, 400, "the body cannot be read: Object contains unknown field `txt`"),
        ("PUT", "/echo", {"content": b"x"}, 415, "must be application/json"),
        ("GET", f"/plain/{'x' * 101}", {}, 400, "is not a valid name"),
        ("GET", "/plain/.x", {}, 400, "'.x' is not a valid name"),
    ],
)
async def test_what_does_not_fit_is_refused_with_the_reason(
    method: str, path: str, options: dict[str, Any], status: int, detail: str
) -> None:
    async with client("all") as http:
        refused = await http.request(method, path, **options)
        assert refused.status_code == status and detail in refused.json()["detail"]
        assert (await http.get(f"/plain/{'x' * 100}")).status_code == 200


@pytest.mark.parametrize(("right", "may"), [(None, 0), ("watch", 1), ("answer", 2), ("all", 3)])
async def test_a_token_does_what_its_right_says_and_no_more(right: Right | None, may: int) -> None:
    async with client(right) as http:
        for number, method in enumerate(("GET", "POST", "PUT")):
            options: dict[str, Any] = {"json": {}} if method != "GET" else {}
            response = await http.request(method, "/echo", **options)
            if number < may:
                assert response.status_code in (200, 201)
            else:
                needed = ("watch", "answer", "all")[number]
                assert response.status_code == 403 and f"needs the right '{needed}'" in response.json()["detail"]


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BODY_SECONDS", 0.01)

    app = Starlette(routes=calls.routes(Site("", "", Tokens()), TABLE))
    device = Device(id="d", name="", right="all", created=0.0, sha256="")
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/api/v1/echo", "headers": [], "query_string": b""}
    async with asyncio.timeout(60):
        await app({**scope, "device": device}, receive, send)
    assert sent[0]["status"] == 408 and b"did not come in time" in sent[1]["body"]


def test_a_call_is_described_by_its_function_and_its_body_may_skip_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "TABLE", [])
    assert (TABLE[0].name, TABLE[0].summary, TABLE[3].summary) == ("echo", "Say it back.", "")
    assert call("GET", "/x")(echo) is echo
    (made,) = calls.TABLE
    assert made == ApiCall("GET", "/x", "watch", echo, None, None, calls.Done, 200, False)
    with pytest.raises(AssertionError, match="would skip fields"):
        call("POST", "/x", body=Wanted)
    assert msgspec.json.encode(calls.Done()) == b'{"ok":true}'


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
