"""Whose signatures count, and when."""

from pathlib import Path

import pytest

from treadle.errors import ConfigError
from treadle.host.signing import Signer
from treadle.host.trusted_keys import default_path, trusted_keys
from treadle.receipts.statement import key_id

ONE, OTHER = Signer(b"1" * 32), Signer(b"2" * 32)
T = "2026-06-01T00:00:00Z"


def written(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'[[key]]\npublic = "{ONE.public_key}"\n{text}')
    return str(path)


def test_only_a_key_that_is_listed_counts(tmp_path: Path) -> None:
    keys = trusted_keys(path=written(tmp_path / "keys", 'who = "ci"\n'))
    assert keys is not None and keys.problem(ONE.public_key, T) is None and keys.who(ONE.public_key) == "ci"
    assert keys.problem(OTHER.public_key, T) == "it is signed with another key"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("until = 2026-06-01\n", False),
        ("until = 2026-06-02\n", True),
        ("since = 2026-06-01T00:00:01Z\n", False),
        ("since = 2026-01-01\nuntil = 2027-01-01\n", True),
    ],
)
def test_a_key_is_good_for_a_time(tmp_path: Path, text: str, good: bool) -> None:
    keys = trusted_keys(path=written(tmp_path / "keys", text))
    assert keys is not None and (keys.problem(ONE.public_key, T) is None) == good


def test_a_signature_in_an_envelope_has_its_signer(tmp_path: Path) -> None:
    keys = trusted_keys(ONE.public_key)
    assert keys is not None
    signed = (key_id(ONE.public_key), ONE.sign(b"data"))
    found = keys.signer(b"data", [("x", "y"), signed])
    assert found is not None and found.public == ONE.public_key
    assert keys.signer(b"other", [signed]) is None
    assert keys.signer(b"data", [(key_id(OTHER.public_key), OTHER.sign(b"data"))]) is None


def test_the_persons_own_file_counts_if_it_is_there(state_home: Path) -> None:
    assert trusted_keys() is None
    written(Path(default_path()), "")
    assert trusted_keys() is not None


NOT_KEYS = ["short", "c2hvcnQ=", f"*{ONE.public_key}", ONE.public_key[:-4], f"{ONE.public_key}{ONE.public_key}"]


@pytest.mark.parametrize("public", NOT_KEYS)
def test_what_is_no_key_is_refused_on_the_command_line_too(public: str) -> None:
    with pytest.raises(ConfigError, match="--key: .* is no public key"):
        trusted_keys(public)


@pytest.mark.parametrize(
    "text", [*(f"[[key]]\npublic = '{public}'\n" for public in NOT_KEYS), "[[key]]\ncolour = 1\n", "not toml ["]
)
def test_what_is_no_list_of_keys_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(ConfigError):
        trusted_keys(path=str(tmp_path / "keys"))
