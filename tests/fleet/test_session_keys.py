"""Sessions that leave their node are encrypted: they open with their order's key and under their own name only."""

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


def test_keys_are_made_as_in_every_release_so_that_stored_sessions_still_open() -> None:
    assert places.from_secret("pass") == "9wwbn58J9988SZdSZgc-GtEEMNDwHnP6eQ-SytZ7poI="
    key = "6d0451d99025af4adbb15d4e54086198237da821aa0ecc569555ecff8669cc98"
    assert places.of_order(places.from_secret("pass"), "a").hex() == key
