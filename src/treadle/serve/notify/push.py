"""Web Push: reaching a browser whose page is closed, through its vendor's push service (RFC 8030).

Messages are encrypted for that browser alone (RFC 8291), so that the service learns only when they are sent, and signed
with a key of this server (RFC 8292), so that no one else can send there.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from treadle.errors import ConfigError, MissingExtra
from treadle.serve.api.calls import Asking, call
from treadle.serve.site import Site
from treadle.serve.tokens import Device, PushSubscription, Tokens

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


HOSTS = ("fcm.googleapis.com", ".push.services.mozilla.com", ".push.apple.com", ".notify.windows.com")
"""Hosts of the browsers' push services. A device may not make this server send anywhere else."""
RECORD = 4096
TEXT_MAX = 1500
"""How many characters a message may have: all of it must fit into one record."""
SIGNED_SECONDS = 12 * 3600


def checked(subscription: PushSubscription) -> PushSubscription:
    place = urlsplit(subscription.endpoint)
    host = place.hostname or ""
    if place.scheme != "https" or not any(host == each or host.endswith(each) for each in HOSTS):
        raise ConfigError(f"{host or 'this'} is not a push service that this server knows")
    try:
        public, secret = _read(subscription.keys.p256dh), _read(subscription.keys.auth)
    except ValueError:
        raise ConfigError("the keys of the subscription cannot be read") from None
    if len(public) != 65 or len(secret) != 16:
        raise ConfigError("the keys of the subscription are not of the right length")
    return subscription


def encrypt(
    subscription: PushSubscription, text: bytes, *, salt: bytes = b"", own: EllipticCurvePrivateKey | None = None
) -> bytes:
    """The body, readable by this browser only: RFC 8291 section 4, in one record of RFC 8188."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise MissingExtra("Web Push", "fleet") from None

    salt, own = salt or os.urandom(16), own or ec.generate_private_key(ec.SECP256R1())
    theirs = _read(subscription.keys.p256dh)
    mine = _public(own)
    shared = own.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs))
    key = _derive(_read(subscription.keys.auth), shared, b"WebPush: info\0" + theirs + mine, 32)
    content = _derive(salt, key, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(salt, key, b"Content-Encoding: nonce\0", 12)
    head = salt + RECORD.to_bytes(4, "big") + bytes((len(mine),)) + mine
    return head + AESGCM(content).encrypt(nonce, text + b"\x02", None)


def _derive(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length, salt, info).derive(secret)


def signed_header(key: EllipticCurvePrivateKey, endpoint: str, address: str) -> str:
    """The header that tells the push service who sends: RFC 8292."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    place = urlsplit(endpoint)
    claims = {
        "aud": f"{place.scheme}://{place.netloc}",
        "exp": int(time.time()) + SIGNED_SECONDS,
        "sub": address if address.startswith("https:") else "mailto:treadle@localhost",
    }
    words = [_write(msgspec.json.encode(part)) for part in ({"typ": "JWT", "alg": "ES256"}, claims)]
    one, other = decode_dss_signature(key.sign(".".join(words).encode(), ec.ECDSA(SHA256())))
    signature = _write(one.to_bytes(32, "big") + other.to_bytes(32, "big"))
    return f"vapid t={'.'.join([*words, signature])}, k={_write(_public(key))}"


def server_key(tokens: Tokens) -> EllipticCurvePrivateKey:
    """The key that all browsers were given; made when it is first needed."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise MissingExtra("Web Push", "fleet") from None

    fresh = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value
    return ec.derive_private_key(int(tokens.push_key(f"{fresh:064x}"), 16), ec.SECP256R1())


async def send(site: Site, device: Device, message: dict[str, Any], *, seconds: float) -> None:
    """Send a message to a device. A subscription that its browser has cancelled is removed."""
    import httpx2

    assert device.push is not None
    key = await asyncio.to_thread(server_key, site.tokens)
    endpoint = device.push.endpoint
    headers = {
        "Authorization": signed_header(key, endpoint, site.address),
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(max(60, int(seconds))),
        "Urgency": "high",
        # Of two messages on one subject, a browser that was offline gets only the later one.
        "Topic": _write(str(message["tag"]).encode())[-32:],
    }
    body = encrypt(device.push, msgspec.json.encode(message))
    async with httpx2.AsyncClient(timeout=10.0, trust_env=True) as client:
        answer = await client.post(endpoint, content=body, headers=headers)
    if answer.status_code in (404, 410):
        await asyncio.to_thread(site.tokens.set_push, device.id, None)
        return
    answer.raise_for_status()


def _public(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _read(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _write(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class PushKey(msgspec.Struct, frozen=True):
    key: str
    """The key that a browser subscribes with."""
    on: bool
    """Whether this device is subscribed already."""


@call("GET", "/push", returns=PushKey)
async def show_push(asking: Asking) -> PushKey:
    """The key with which a browser subscribes to this server's messages."""
    key = await asyncio.to_thread(server_key, asking.site.tokens)
    return PushKey(_write(_public(key)), asking.device.push is not None)


@call("PUT", "/push", body=PushSubscription)
async def subscribe(asking: Asking) -> None:
    """Notify this device of what needs a person, also while the page is closed."""
    await asyncio.to_thread(asking.site.tokens.set_push, asking.device.id, checked(asking.body))


@call("DELETE", "/push")
async def unsubscribe(asking: Asking) -> None:
    """Stop notifying this device."""
    await asyncio.to_thread(asking.site.tokens.set_push, asking.device.id, None)
