"""Keys and signatures."""

import base64
import os
from pathlib import Path

import pytest

from treadle.errors import ConfigError, StorageError
from treadle.host.signing import Signer, load_signer, make_key, read_seed, verify


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


@pytest.mark.parametrize("form", ["base64", "pem", "openssh", "command"])
def test_a_key_is_read_in_the_forms_that_people_have(tmp_path: Path, form: str) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.from_private_bytes(b"7" * 32)
    forms = {"pem": PrivateFormat.PKCS8, "openssh": PrivateFormat.OpenSSH}
    plain = base64.b64encode(b"7" * 32)
    text = key.private_bytes(Encoding.PEM, forms[form], NoEncryption()) if form in forms else plain
    (tmp_path / "key").write_bytes(text)
    assert read_seed(f"command:cat {tmp_path}/key" if form == "command" else str(tmp_path / "key")) == b"7" * 32


def test_what_is_no_key_is_named_with_where_it_is(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    other = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for text in (b"short", b"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n", other):
        (tmp_path / "key").write_bytes(text)
        with pytest.raises(ConfigError, match="key"):
            read_seed(str(tmp_path / "key"))
    for wrong in ("env:NO_SUCH_VARIABLE", "command:exit 3"):
        with pytest.raises(ConfigError):
            read_seed(wrong)
