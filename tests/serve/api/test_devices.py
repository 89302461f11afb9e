"""Devices: how one signs in, what it may do, and how it is cut off."""

import pytest

from tests.serve.conftest import Follow, Web


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
