"""Tokens: for a device each, known only by their hash; links for one use; signatures that expire."""

import os
import time
from pathlib import Path

import pytest

from tests.fleet.api.conftest import Follow, Web
from treadle.errors import ConfigError, NotFound, StorageError
from treadle.fleet.api.tokens import Tokens, may


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(str(tmp_path / "tokens.json"))


def test_a_token_is_known_by_its_hash_and_kept_nowhere(tokens: Tokens) -> None:
    device, token = tokens.make("laptop", "watch")
    found = Tokens(tokens.path).check(token)
    assert found is not None and found.id == device.id and tokens.check(f"{token}x") is None
    with open(tokens.path) as file:
        assert token not in file.read()
    assert os.stat(tokens.path).st_mode & 0o077 == 0


def test_rights_include_the_smaller_ones(tokens: Tokens) -> None:
    watch, answer, all_ = (tokens.make(right, right)[0] for right in ("watch", "answer", "all"))  # type: ignore[arg-type]
    assert may(watch, "watch") and not may(watch, "answer")
    assert may(answer, "answer") and not may(answer, "all") and may(all_, "all")


def test_a_link_works_once_and_not_after_its_time(tokens: Tokens) -> None:
    code = tokens.link("phone", "answer")
    made = tokens.exchange(code)
    assert made is not None and made[0].right == "answer" and made[0].name == "phone"
    assert tokens.exchange(code) is None and tokens.exchange("guess") is None
    late = tokens.link("phone", "answer", seconds=-1)
    assert tokens.exchange(late) is None
    with pytest.raises(ConfigError):
        tokens.link("x", "everything")  # type: ignore[arg-type]


def test_a_revoked_token_is_worth_nothing_also_in_another_process(tokens: Tokens) -> None:
    _, token = tokens.make("phone", "all")
    elsewhere = Tokens(tokens.path)
    assert elsewhere.check(token)
    tokens.revoke("phone")
    assert elsewhere.check(token) is None
    with pytest.raises(NotFound):
        tokens.revoke("phone")


def test_a_signature_is_of_one_text_until_it_expires_and_is_used_once(tokens: Tokens) -> None:
    soon = time.time() + 60
    signature = tokens.sign("o1.1 allow", soon)
    assert tokens.signed("o1.1 allow", soon, signature)
    assert not tokens.signed("o1.2 allow", soon, signature) and not tokens.signed("o1.1 allow", soon + 9, signature)
    past = time.time() - 1
    assert not tokens.signed("o1.1 allow", past, tokens.sign("o1.1 allow", past))
    assert tokens.use(signature, soon) and not Tokens(tokens.path).use(signature, soon)


def test_a_damaged_or_newer_file_is_told_and_left_alone(tokens: Tokens, tmp_path: Path) -> None:
    for content in ("{", '{"format": 2}'):
        (tmp_path / "tokens.json").write_text(content)
        with pytest.raises(StorageError):
            Tokens(tokens.path).read()
        assert (tmp_path / "tokens.json").read_text() == content


async def test_the_code_of_a_link_becomes_a_cookie_that_no_script_reads(alone: Web) -> None:
    code = alone.server.tokens.link("", "watch")
    nobody = {"authorization": "", "user-agent": "Mozilla/5.0 (Linux; Android 14) Chrome/140"}
    response = await alone.http.post("/login", json={"code": code}, headers=nobody)
    cookie = response.headers["set-cookie"]
    assert response.json() == {"right": "watch", "device": "Chrome on Android"}
    assert cookie.startswith(f"treadle_{alone.listening.port}=") and "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    alone.http.cookies.clear()
    again = await alone.http.post("/login", json={"code": code}, headers=nobody)
    assert again.status_code == 401 and "used before" in again.json()["error"]["message"]
    assert (await alone.http.post("/login", content=b"{", headers=nobody)).status_code == 400


async def test_what_a_device_may_do_is_what_its_token_says(alone: Web) -> None:
    watch, answer = alone.headers("watch"), alone.headers("answer")
    assert (await alone.http.get("/api/v1/terminals", headers=watch)).status_code == 200
    for headers in (watch, answer):
        refused = await alone.http.post("/api/v1/terminals/t1/input", json={"text": "x"}, headers=headers)
        assert refused.status_code == 403 and "'all'" in refused.json()["error"]["message"]
    listed = (await alone.http.get("/api/v1/devices")).json()
    assert {each["right"] for each in listed} == {"all", "watch", "answer"} and sum(each["you"] for each in listed) == 1


async def test_a_revoked_device_is_cut_off_at_once(alone: Web, follow: Follow) -> None:
    device, token = alone.server.tokens.make("phone", "watch")
    follower = await follow(alone, token=token)
    await follower.until(lambda message: message["t"] == "hello")
    assert (await alone.http.delete(f"/api/v1/devices/{device.id}")).status_code == 200
    with pytest.raises(Exception, match="4401|taken back"):
        await follower.until(lambda message: False)
    response = await alone.http.get("/api/v1/me", headers={"authorization": f"Bearer {token}"})
    assert response.status_code == 401
