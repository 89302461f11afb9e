"""Ed25519 signatures on receipts. Only its owner can read the private key's file; needs the extra `signing`."""

import base64
import os

from treadle.errors import ConfigError, MissingExtra, StorageError
from treadle.io.files import write_atomic
from treadle.io.paths import private_dir, state_dir
from treadle.io.reading import read_if_there


def key_path() -> str:
    return os.path.join(state_dir(), "keys", "receipts.ed25519")


class Signer:
    """Signs with one private key."""

    algorithm = "ed25519"

    def __init__(self, seed: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
        except ImportError as error:
            raise MissingExtra("signing receipts", "signing") from error
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public_key = base64.b64encode(public).decode()

    def sign(self, data: bytes) -> str:
        return base64.b64encode(self._key.sign(data)).decode()


def load_signer(path: str | None = None) -> Signer | None:
    """The person's key, or None when they have made none."""
    place = path or key_path()
    data = read_if_there(place)
    if data is None:
        return None
    try:
        seed = base64.b64decode(data.strip(), validate=True)
    except ValueError as error:
        raise ConfigError(f"{place} holds no key", hint="make a new one: treadle receipt keygen") from error
    if len(seed) != 32:
        raise ConfigError(f"{place} holds no key of 32 bytes", hint="make a new one: treadle receipt keygen")
    return Signer(seed)


def make_key(path: str | None = None) -> Signer:
    """Make a new key. An existing one is not replaced: its receipts could then no longer be verified."""
    place = path or key_path()
    if os.path.exists(place):
        raise StorageError(f"there is a key at {place} already", hint="move it away first if you want another")
    seed = os.urandom(32)
    signer = Signer(seed)
    private_dir(os.path.dirname(os.path.abspath(place)))
    write_atomic(place, base64.b64encode(seed) + b"\n")
    return signer


def verify(public_key: str, signature: str, data: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise MissingExtra("checking signatures", "signing") from error
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(base64.b64decode(signature, validate=True), data)
    except (InvalidSignature, ValueError):
        return False
    return True
