"""Tokens: for a device each, known only by their hash; links for one use; signatures that expire."""

import os
import time
from pathlib import Path

import pytest

from treadle.errors import ConfigError, NotFound
from treadle.serve.tokens import (
    Tokens,
)


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


def test_a_page_needs_its_cookie_and_its_proof_and_neither_is_a_token(tokens: Tokens) -> None:
    device, cookie, proof = tokens.make_page("tablet", "all")
    other, cookie2, proof2 = tokens.make_page("phone", "watch")
    _, token = tokens.make("script", "all")
    assert [found.id for found in (tokens.check_page(cookie, proof),) if found] == [device.id]
    assert [found.id for found in (tokens.check_page(cookie2, proof2),) if found] == [other.id]
    for pair in ((cookie, ""), (cookie, proof2), (cookie2, proof), (proof, cookie), (token, ""), (token, proof)):
        assert tokens.check_page(*pair) is None
    assert tokens.check(cookie) is None and tokens.check(proof) is None and tokens.check(token)


def test_devices_of_the_time_when_a_cookie_was_a_token_sign_in_anew(tokens: Tokens, tmp_path: Path) -> None:
    _, token = tokens.make("laptop", "all")
    key = tokens.key()
    path = tmp_path / "tokens.json"
    path.write_text(path.read_text().replace('"format":2', '"format":1'))
    old = Tokens(tokens.path)
    assert old.check(token) is None and old.read().devices == () and old.key() == key


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


def test_a_device_is_revoked_by_its_id_or_by_a_name_that_only_it_has(tokens: Tokens) -> None:
    (first, token), (_, other) = tokens.make("phone", "all"), tokens.make("phone", "all")
    with pytest.raises(NotFound, match="2 devices are called 'phone'"):
        tokens.revoke("phone")
    assert tokens.revoke(first.id).id == first.id
    assert tokens.check(token) is None and tokens.check(other)
    tokens.revoke("phone")
    with pytest.raises(NotFound, match="no devices are called 'phone'"):
        tokens.revoke("phone")
