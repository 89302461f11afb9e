"""Whose signatures count, and when."""

from pathlib import Path

import pytest

from treadle.errors import ConfigError, StorageError
from treadle.host.gate import TrustedKeys, default_path, trusted_keys
from treadle.host.signing import Signer

ONE, OTHER = Signer(b"1" * 32), Signer(b"2" * 32)
T = "2026-06-01T00:00:00Z"


def written(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'[[key]]\npublic = "{ONE.public_key}"\n{text}')
    return str(path)


def test_only_a_key_that_is_listed_counts(tmp_path: Path) -> None:
    keys = trusted_keys(path=written(tmp_path / "keys", 'who = "ci"\n'))
    assert keys is not None and keys.problem(ONE.public_key, T) is None and keys.who(ONE.public_key) == "ci"
    assert keys.problem(OTHER.public_key, T) == "it is signed with another key" and keys.who(OTHER.public_key) is None
    only = trusted_keys(ONE.public_key)
    assert only is not None and only.who(ONE.public_key) == ONE.public_key
    assert trusted_keys(OTHER.public_key, written(tmp_path / "keys", "")) == only, "a file that is named goes first"
    with pytest.raises(StorageError, match="none"):
        trusted_keys(path=str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("until = 2026-06-01\n", False),
        ("until = 2026-06-01T00:00:00\n", False),
        ("until = 2026-06-01T00:00:00-01:00\n", True),
        ("since = 2026-06-01\n", True),
        ("since = 2026-06-01T00:00:00+01:00\n", True),
        ("since = 2027-01-01\n[[key]]\npublic = 'ONE'\nuntil = 2027-01-01\n", True),
        ("until = 2026-06-02\n", True),
        ("since = 2026-06-01T00:00:01Z\n", False),
        ("since = 2026-01-01\nuntil = 2027-01-01\n", True),
    ],
)
def test_a_key_is_good_for_a_time(tmp_path: Path, text: str, good: bool) -> None:
    for who, called in (("", "its signer"), ("who = 'ann'\n", "ann")):
        keys = trusted_keys(path=written(tmp_path / "keys", who + text.replace("ONE", ONE.public_key)))
        assert keys is not None
        assert keys.problem(ONE.public_key, T) == (None if good else f"the key of {called} was not good at {T}")


def test_the_persons_own_file_counts_if_it_is_there(state_home: Path) -> None:
    assert trusted_keys() is None
    written(Path(default_path()), "")
    found = trusted_keys()
    assert found is not None and found.seen is None and [one.public for one in found.key] == [ONE.public_key]
    assert default_path() == str(state_home / "treadle" / "trusted-keys.toml")
    Path(default_path()).write_text('seen = "abc"\n')
    assert trusted_keys() == TrustedKeys(seen="abc")


NOT_KEYS = ["short", "c2hvcnQ=", f"*{ONE.public_key}", ONE.public_key[:-4], f"{ONE.public_key}{ONE.public_key}"]


@pytest.mark.parametrize("public", NOT_KEYS)
def test_what_is_no_key_is_refused_on_the_command_line_too(public: str) -> None:
    with pytest.raises(ConfigError, match="--key: .* is not a public key"):
        trusted_keys(public)


@pytest.mark.parametrize(
    "text", [*(f"[[key]]\npublic = '{public}'\n" for public in NOT_KEYS), "[[key]]\ncolour = 1\n", "not toml ["]
)
def test_what_is_no_list_of_keys_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text)
    listed = "colour" not in text and "[[key]]" in text
    said = (
        ": '.* is not a public key .treadle receipt key prints yours"
        if listed
        else " is not a list of keys: .*receipts.md"
    )
    with pytest.raises(ConfigError, match=f"{tmp_path}/keys{said}"):
        trusted_keys(path=str(tmp_path / "keys"))
