"""Versions, and what a card is read for."""

import pytest

from treadle.drivers.card import cards, levels, newer, older, version_of
from treadle.sessions.abilities import ABILITIES


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("2.1.325 (Claude Code)", "2.1.325"),
        ("codex-cli 0.166.0\n", "0.166.0"),
        ("v3.0.0-beta.79", "3.0.0-beta.79"),
        ("?", ""),
    ],
)
def test_a_version_is_found_in_what_a_program_says(said: str, version: str) -> None:
    assert version_of(said) == version


@pytest.mark.parametrize(
    ("version", "recorded", "is_newer"),
    [
        ("2.1.326", ("2.1.325",), True),
        ("2.1.325", ("2.1.325",), False),
        ("2.1.99", ("2.1.325",), False),
        ("2.10.0", ("2.9.0",), True),
        ("1.5.0", ("1.0.0", "2.0.0"), False),
        ("", ("1.0.0",), False),
        ("1.0.0", (), False),
    ],
)
def test_a_version_is_newer_when_it_is_newer_than_every_recording(
    version: str, recorded: tuple[str, ...], is_newer: bool
) -> None:
    assert newer(version, recorded) == is_newer


@pytest.mark.parametrize(
    ("version", "recorded", "is_older"),
    [
        ("2.1.324", ("2.1.325",), True),
        ("2.1.325", ("2.1.325",), False),
        ("1.5.0", ("1.0.0", "2.0.0"), False),
        ("0.9", ("1.0.0", "2.0.0"), True),
        ("", ("1.0.0",), False),
        ("1.0.0", (), False),
    ],
)
def test_a_version_is_older_when_it_is_older_than_every_recording(
    version: str, recorded: tuple[str, ...], is_older: bool
) -> None:
    assert older(version, recorded) == is_older


def test_an_ability_that_is_not_named_is_unsupported_and_one_that_does_not_exist_is_an_error() -> None:
    found = levels(native="tools resume", emulated="mode")
    assert (found["tools"], found["resume"], found["mode"], found["fork"]) == (
        *("native", "native", "emulated", "unsupported"),
    )
    assert found.keys() == set(ABILITIES) and levels(native="")["tools"] == "unsupported"
    with pytest.raises(ValueError, match="there is no ability 'telepathy'"):
        levels(native="tools", emulated="telepathy")


def test_cards_are_found_by_their_folders_in_the_order_of_their_names() -> None:
    assert list(cards()) == sorted(cards()) and {"acp", "claude", "codex", "worker"} <= cards().keys()
    assert not cards()["claude"].prefix and cards()["worker"].prefix
    assert newer("2.0.0-beta.9", ("1.9",)) and not newer("2.0.0-beta.9", ("2.0.0",))
