"""Versions, and what a card is read for."""

import pytest

from treadle.drivers.card import newer, older, version_of


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
