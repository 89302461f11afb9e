"""What plain functions of this room make of what they are given: `tests/golden/translations/drivers.txt`."""

from tests.wire.test_translations import hold


def test_each_gives_or_refuses_what_it_did() -> None:
    hold("drivers")
