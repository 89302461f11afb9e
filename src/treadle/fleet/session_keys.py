"""The keys that agents' sessions are encrypted with before they leave their node.

The machines that schedule hold the fleet's key (`fleet.json`). Each order has a key of its own, made from it, which the
scheduler gives to the runner that has the order and to no one else: who may read the store, or runs other orders, can
not read the session. The cipher is AES-256-GCM, of `cryptography`.
"""

import base64
import secrets

from treadle.errors import StorageError

KEY_BYTES = 32
NONCE_BYTES = 12


def new() -> str:
    """A key for a fleet, as text for its file."""
    return base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def from_secret(secret: str) -> str:
    """The key of a fleet whose machines have nothing in common but what they log in with."""
    return base64.urlsafe_b64encode(_derived(secret.encode(), b"treadle sessions of a fleet")).decode()


def of_order(fleet: str, order: str) -> bytes:
    """The key of one order. From it neither the fleet's key nor another order's can be computed."""
    return _derived(base64.urlsafe_b64decode(fleet), b"treadle session of " + order.encode())


def _derived(secret: bytes, purpose: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose).derive(secret)


def seal(key: bytes, data: bytes, name: str) -> bytes:
    """Encrypt under a name: it opens under no other."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, data, name.encode())


def unseal(key: bytes, data: bytes, name: str) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], name.encode())
    except (InvalidTag, ValueError):
        raise StorageError(f"{name} is encrypted with another key, or was changed") from None
