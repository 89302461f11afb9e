"""Devices: how one signs in, what it may do, and how it is cut off."""

import pytest

from tests.serve.conftest import Follow, Web, calls_of
from treadle.serve import gate
from treadle.serve.api import devices


async def test_the_code_of_a_link_becomes_a_cookie_that_no_script_reads(alone: Web) -> None:
    code = alone.server.site.tokens.link("", "watch")
    nobody = {"authorization": "", "user-agent": "Mozilla/5.0 (Linux; Android 14) Chrome/140"}
    response = await alone.http.post("/login", json={"code": code}, headers=nobody)
    cookie = response.headers["set-cookie"]
    proof = response.json().pop("proof")
    assert response.json() == {"right": "watch", "device": "Chrome on Android", "proof": proof}
    assert proof not in cookie
    assert cookie.startswith(f"treadle_{alone.listening.port}=") and "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    alone.http.cookies.clear()
    again = await alone.http.post("/login", json={"code": code}, headers=nobody)
    assert again.status_code == 401 and "used before" in again.json()["detail"]
    assert (await alone.http.post("/login", content=b"{", headers=nobody)).status_code == 400
    assert "Max-Age=34560000" in cookie and "Path=/" in cookie and "secure" not in cookie.lower()
    assert "treadle serve --link" in again.json()["detail"]
    assert again.status_code == 401 and len(alone.server.site.tokens.read().devices) == 2


async def test_a_guessed_code_is_counted_and_a_page_over_tls_has_a_cookie_that_is_sent_nowhere_else(
    alone: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = {"authorization": ""}
    monkeypatch.setattr(gate, "FAILURES_MAX", 2)
    answers = [(await alone.http.post("/login", json={"code": "x"}, headers=nobody)).status_code for _ in range(3)]
    assert answers == [401, 401, 429]
    monkeypatch.setattr(alone.server.gate, "secure", True)
    code = alone.server.site.tokens.link("tab", "all")
    signed = await alone.http.post("/login", json={"code": code}, headers=nobody)
    assert "secure" in signed.headers["set-cookie"].lower() and signed.json()["device"] == "tab"


async def test_another_device_is_invited_by_a_link_and_told_who_it_is(alone: Web) -> None:
    made = await alone.post("/devices", {"name": "tab"}, status=201)
    address, _, code = made["url"].partition("/#")
    found = alone.server.site.tokens.exchange(code)
    assert address == alone.address and found is not None and (found[0].name, found[0].right) == ("tab", "answer")
    full = (await alone.post("/devices", {"right": "all"}, status=201))["url"].partition("/#")[2]
    other = alone.server.site.tokens.exchange(full)
    assert other is not None and other[0].right == "all"
    me = await alone.get("/me")
    assert me == {"device": "test", "right": "all", "user": alone.server.site.user}
    (mine,) = [each for each in await alone.get("/devices") if each["you"]]
    stored = next(each for each in alone.server.site.tokens.read().devices if each.name == "test")
    assert (mine["id"], mine["name"], mine["created"], mine["used"]) == (stored.id, "test", stored.created, stored.used)
    assert (await alone.http.delete("/api/v1/devices/none")).status_code == 404


async def test_what_a_device_may_do_is_what_its_token_says(alone: Web) -> None:
    watch, answer = alone.headers("watch"), alone.headers("answer")
    assert (await alone.http.get("/api/v1/terminals", headers=watch)).status_code == 200
    for headers in (watch, answer):
        refused = await alone.http.post("/api/v1/terminals/t1/input", json={"text": "x"}, headers=headers)
        assert refused.status_code == 403 and "'all'" in refused.json()["detail"]
    listed = (await alone.http.get("/api/v1/devices")).json()
    assert {each["right"] for each in listed} == {"all", "watch", "answer"} and sum(each["you"] for each in listed) == 1


async def test_a_revoked_device_is_cut_off_at_once(alone: Web, follow: Follow) -> None:
    device, token = alone.server.site.tokens.make("phone", "watch")
    follower = await follow(alone, token=token)
    await follower.until(lambda message: message["t"] == "hello")
    assert (await alone.http.delete(f"/api/v1/devices/{device.id}")).status_code == 200
    with pytest.raises(Exception, match="4401|taken back"):
        await follower.until(lambda message: False)
    response = await alone.http.get("/api/v1/me", headers={"authorization": f"Bearer {token}"})
    assert response.status_code == 401


def test_who_may_do_what() -> None:
    assert calls_of(devices) == [
        "GET /devices all",
        "POST /devices all",
        "DELETE /devices/{id} all",
        "GET /me watch",
    ]
