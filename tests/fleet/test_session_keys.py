"""Sessions that leave their node are encrypted: they open with their order's key and under their own name only."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import StorageError
from treadle.fleet.engine import places

FLEET = places.new()
KEY = places.of_order(FLEET, "a")


@given(st.binary(), st.text())
def test_what_is_sealed_opens_as_it_was(data: bytes, name: str) -> None:
    assert places.unseal(KEY, places.seal(KEY, data, name), name) == data


@given(st.binary(min_size=1), st.data())
def test_a_changed_bit_another_name_and_another_order_s_key_open_nothing(data: bytes, draw: st.DataObject) -> None:
    sealed = places.seal(KEY, data, "x")
    at = draw.draw(st.integers(0, len(sealed) - 1))
    changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
    other = places.of_order(FLEET, "b")
    for key, stored, name in ((KEY, changed, "x"), (KEY, sealed, "y"), (other, sealed, "x"), (KEY, sealed[:5], "x")):
        with pytest.raises(StorageError, match="another key, or was changed"):
            places.unseal(key, stored, name)


def test_two_copies_of_one_session_look_different_and_the_text_is_in_none() -> None:
    one, two = (places.seal(KEY, b"said " * 50, "x") for _ in range(2))
    assert one != two and b"said" not in one


def test_a_fleet_that_has_no_key_yet_gets_one_and_keeps_it(state_home: Path) -> None:
    places.save(places.Fleet(url="nats://127.0.0.1:1", users={"admin": "x"}))
    made = places.session_key()
    assert places.session_key() == made == places.load().session_key and len(places.of_order(made, "a")) == 32
    assert places.load().users == {"admin": "x"}


def test_machines_that_log_in_to_a_server_alike_have_one_key(state_home: Path) -> None:
    def key(**fields: str) -> str:
        places.save(places.Fleet(private=False, **{"url": "tls://a:4222", **fields}))
        return places.session_key()

    me, other = state_home / "me.creds", state_home / "other.creds"
    me.write_text("SEED-1\n")
    other.write_text("SEED-2\n")
    assert key(creds=str(me)) == key(creds=str(me)) != key(creds=str(other))
    assert key(url="tls://me:word@a:4222,tls://b:4222") == key(url="tls://me:word@a:4222") != key(url="tls://me:w@a")
    assert key() != key(), "nothing in common: each machine has its own"


def test_keys_are_made_as_in_every_release_so_that_stored_sessions_still_open() -> None:
    assert places.from_secret("pass") == "9wwbn58J9988SZdSZgc-GtEEMNDwHnP6eQ-SytZ7poI="
    key = "6d0451d99025af4adbb15d4e54086198237da821aa0ecc569555ecff8669cc98"
    assert places.of_order(places.from_secret("pass"), "a").hex() == key
