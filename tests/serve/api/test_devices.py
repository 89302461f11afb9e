"""Devices: how one signs in, what it may do, how it is cut off, and links that answer one question."""

import asyncio
import time

import pytest

from tests.fleet.conftest import give, spec
from tests.serve.conftest import WAIT, Follow, Web
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.serve import gate
from treadle.serve.api import devices
from treadle.wire.fleet.records import AskRecord


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
    with pytest.raises(Exception, match="4401|revoked"):
        await follower.until(lambda message: False)
    response = await alone.http.get("/api/v1/me", headers={"authorization": f"Bearer {token}"})
    assert response.status_code == 401


NOT_WHOLE = {
    "o/1/allow/99999999999/wrong": 403,
    "o/1/maybe/99999999999/wrong": 404,
    "o/one/allow/99999999999/wrong": 404,
    "o/1/allow/never/wrong": 404,
    "o/1/allow/9999999999999/wrong": 404,
}


async def test_a_link_that_is_not_whole_or_was_not_made_here_answers_nothing(alone: Web) -> None:
    for path, status in NOT_WHOLE.items():
        for method in ("GET", "POST"):
            assert (await alone.http.request(method, f"{alone.address}/a/{path}")).status_code == status, path


def asked(deadline: float) -> AskRecord:
    return AskRecord(order="o", number=1, asked_at=0.0, deadline=deadline, default="deny")


async def test_a_link_is_signed_for_one_question_one_answer_and_until_its_end(alone: Web) -> None:
    tokens = alone.server.site.tokens
    made = devices.make(tokens, alone.address, asked(time.time() + 60), "allow")
    assert (await alone.http.get(made)).status_code == 409, "it is whole, and there is no fleet to ask"
    for other in (made.replace("/allow/", "/deny/"), made.replace("/o/1/", "/o/2/"), made.replace("/o/1/", "/p/1/")):
        assert (await alone.http.get(other)).status_code == 403
    assert (await alone.http.get(devices.make(tokens, alone.address, asked(1.0), "allow"))).status_code == 403


def test_what_cannot_be_seen_is_shown_by_its_number() -> None:
    assert devices.shown("rm\u200b -rf\u202e x\x1b[0m") == "rm⟨U+200B⟩ -rf⟨U+202E⟩ x⟨U+001B⟩[0m"
    assert devices.shown("a\n\tb é") == "a\n\tb é"


async def test_a_question_is_shown_then_answered_once_and_says_who_was_first(web: Web, bus: Bus) -> None:
    (name,) = await give(bus, spec())
    site = web.server.site
    index, tokens = site.fleet.require_index(), site.tokens
    deadline = time.time() + 605

    def ask(number: int) -> AskRecord:
        said = {"agent": "codex", "title": "a <b>", "text": "rm -r\u200b build"}
        return AskRecord(order=name, number=number, asked_at=0.0, deadline=deadline, default="deny", **said)  # type: ignore[arg-type]

    for number in (1, 2):
        await bus.put(f"ask.{name}.{number}", encode(ask(number)))
    links = {number: devices.make(tokens, web.address, ask(number), "allow") for number in (1, 2, 3)}
    async with asyncio.timeout(WAIT):
        while index.ask(f"{name}.2") is None:
            await asyncio.sleep(0.01)
        shown = await web.http.get(links[1])
        assert shown.status_code == 200 and "codex asks, for “a &lt;b&gt;”:" in shown.text
        assert "rm -r⟨U+200B⟩ build" in shown.text and "10 minutes left, then: deny" in shown.text
        assert '<form method="post"><button class="allow">Allow</button></form>' in shown.text
        lost = await web.http.get(links[3])
        assert lost.status_code == 404 and "no such question any more" in lost.text
        done = await web.http.post(links[1])
        assert (done.status_code, "Answered: allow." in done.text, "<form" in done.text) == (200, True, False)
        while (found := index.ask(f"{name}.1")) is None or found[1] is None:
            await asyncio.sleep(0.01)
    assert found[1].by == f"{site.user} (answer link)" and found[1].decision == "allow"
    again = await web.http.post(links[1])
    assert again.status_code == 200 and f"{site.user} (answer link) has answered already: allow." in again.text
    assert tokens.use(links[2].rpartition("/")[2], deadline)
    used = await web.http.post(links[2])
    assert used.status_code == 409 and "used before" in used.text and "<form" not in used.text
