"""Keys and signatures."""

import os
from pathlib import Path

import pytest

from treadle.errors import ConfigError, StorageError
from treadle.host.signing import Signer, load_signer, make_key, verify


def test_a_signature_fits_its_key_and_its_data_and_nothing_else() -> None:
    signer = Signer(b"s" * 32)
    signature = signer.sign(b"data")
    assert verify(signer.public_key, signature, b"data")
    assert not verify(signer.public_key, signature, b"datb")
    assert not verify(Signer(b"t" * 32).public_key, signature, b"data")
    for nonsense in ("", "@@@", "AAAA"):
        assert not verify(nonsense, signature, b"data") and not verify(signer.public_key, nonsense, b"data")


def test_a_key_is_never_replaced_and_a_bad_one_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "keys" / "k")
    make_key(path)
    with pytest.raises(StorageError, match="already"):
        make_key(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    Path(path).write_text("hello")
    with pytest.raises(ConfigError):
        load_signer(path)
    assert load_signer(str(tmp_path / "none")) is None
