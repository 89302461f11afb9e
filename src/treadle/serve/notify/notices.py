"""Notifies people who are not looking: once for each cause, on every target, and taken back where possible.

A cause is a question, an order that failed, work to be reviewed, or a train that stopped. Browsers that subscribed are
notified over Web Push, and every `--notify` target in its own way. Failed deliveries are tried again for a while and
then given up: no run waits for them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import os
import shlex
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from treadle.errors import ConfigError, LocalError, MissingExtra
from treadle.fleet.engine.bus import Entry
from treadle.fleet.orders import read_answer
from treadle.serve.api import devices
from treadle.serve.api.calls import Asking, call
from treadle.serve.order_rows import OrderRow
from treadle.serve.site import Site
from treadle.serve.tokens import Device, PushSubscription, Tokens
from treadle.wire.fleet import keys
from treadle.wire.fleet.records import AnswerRecord, AskRecord
from treadle.wire.fleet.train import TrainRecord

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


# Where notices can go. A target is written as text, and becomes a function that sends one notice there.
#
#     https://hooks.example/x                   a POST of JSON, signed in the header X-Treadle-Signature
#     command:notify-send                       the command is run with the words as its last argument
#     env:NAME                                  the target in this environment variable: addresses of hooks are secrets
#
# Each link of a notice shows the question; only the button on its page answers.

TEXT_MAX = 3000
POST_SECONDS = 10.0
Target: TypeAlias = Callable[["Notice", bytes], Awaitable[None]]
"""Sends a notice, signed with this key where possible."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that needs a person, in words."""

    key: str
    kind: str
    """asked, failed, finished, or stopped, which is about no order."""
    order: str
    title: str
    words: str
    until: float
    url: str
    links: dict[str, str] = {}
    """For a question: decision -> the link that gives this answer."""
    number: int | None = None
    ask: AskRecord | None = None

    def cut(self) -> str:
        return self.words if len(self.words) <= TEXT_MAX else f"{self.words[:TEXT_MAX]}… (the link shows all of it)"


def parse(target: str) -> Target:
    kind, _, rest = target.partition(":")
    if kind == "env":
        if not (found := os.environ.get(rest, "")) or found.startswith("env:"):
            raise ConfigError(f"the variable {rest} is not set to a notification target")
        return parse(found)
    if kind == "command" and shlex.split(rest):
        return lambda notice, key: _command(shlex.split(rest), notice)
    if not target.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        # Without its secret part, because this may be printed anywhere.
        raise ConfigError(
            f"a target of the kind {kind[:20]!r} is not supported",
            hint="https://..., command:PROGRAM or env:NAME",
        )
    return lambda notice, key: _webhook(target, notice, key)


async def _command(argv: list[str], notice: Notice) -> None:
    from treadle.io.process.programs import run_program

    done = await asyncio.to_thread(run_program, [*argv, f"{notice.title}: {notice.cut()}"], timeout=60.0)
    if done.code:
        raise OSError(f"the command failed: {done.complaint}")


async def _webhook(url: str, notice: Notice, key: bytes) -> None:
    body = msgspec.json.encode(notice)
    signature = hmac.new(key, body, hashlib.sha256).hexdigest()
    headers = {"Content-Type": "application/json", "X-Treadle-Signature": f"sha256={signature}"}
    _accepted(url, await _status_of(url, body, headers))


async def _status_of(url: str, body: bytes, headers: dict[str, str]) -> int:
    from treadle.io.http import HttpClient

    client = HttpClient(headers, connect_seconds=POST_SECONDS, idle_seconds=POST_SECONDS)
    try:
        async with client.request("POST", url, body) as response:
            return response.status
    finally:
        await client.aclose()


def _accepted(url: str, status: int) -> None:
    if not 200 <= status < 300:  # of the address, only the host: the path of a hook is its secret
        raise LocalError(f"{urlsplit(url).hostname} answered {status}")


# Web Push: reaching a browser whose page is closed, through its vendor's push service (RFC 8030).
#
# Messages are encrypted for that browser alone (RFC 8291), so that the service learns only when they are sent, and
# signed with a key of this server (RFC 8292), so that no one else can send there.

HOSTS = ("fcm.googleapis.com", ".push.services.mozilla.com", ".push.apple.com", ".notify.windows.com")
"""Hosts of the browsers' push services. A device may not make this server send anywhere else."""
RECORD = 4096
"""Bytes. The encrypted message is a single record (RFC 8291), and push services need not take more than 4096 bytes (RFC
8030)."""
PUSH_TEXT_MAX = 1500
"""How many characters a message may have: all of it must fit into one record."""
SIGNED_SECONDS = 12 * 3600
"""RFC 8292 allows at most 24 hours."""


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
    status = await _status_of(endpoint, body, headers)
    if status in (404, 410):
        await asyncio.to_thread(site.tokens.set_push, device.id, None)
    else:
        _accepted(endpoint, status)


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


log = logging.getLogger(__name__)

TRIES = 6
FIRST_PAUSE = 1.0
SENT_MAX = 10_000
NEWS_SECONDS = 600.0
"""Changes older than this are not news: a server that has just started notifies no one about them."""


class Notices:
    def __init__(self, site: Site, targets: tuple[str, ...]) -> None:
        self.site = site
        self.targets = tuple(parse(target) for target in targets)
        self._sent: dict[str, list[Callable[[str], Awaitable[None]]]] = {}
        """Each cause that was announced, with the functions that take the notices back."""

    def on_state(self, entries: list[Entry], rows: list[OrderRow]) -> None:
        for entry in entries:
            kind, _, key = entry.key.partition(".")
            if kind == "ask" and entry.value and key not in self._sent:
                ask = keys.ASK.read(entry.value, entry.key)
                if ask.deadline > time.time():
                    self._tell(self._of_ask(key, ask))
            elif kind == "answer" and entry.value and key in self._sent:
                answer: AnswerRecord = read_answer(entry.value, entry.key)
                if answer.stands:
                    self._take_back(key, f"{answer.by} answered: {answer.decision}")
            elif kind == "train" and entry.value:
                self._look_at_train(key, keys.TRAIN.read(entry.value, entry.key))
        for row in rows:
            key = f"{row.id}.{row.needs}.{row.attempt}"
            if row.needs in ("failed", "review") and row.changed > time.time() - NEWS_SECONDS and key not in self._sent:
                self._tell(self._of_row(key, row))

    def _look_at_train(self, name: str, record: TrainRecord) -> None:
        """A train that stopped by itself needs a person; one that a person paused does not."""
        note, key = record.paused, keys.TRAIN(name)
        if note is None or note.by != "train":
            if self._sent.get(key):
                self._take_back(key, f"the train of {record.branch} goes on")
            self._sent.pop(key, None)
        elif key not in self._sent and note.at > time.time() - NEWS_SECONDS:
            self._tell(
                Notice(
                    key=key,
                    kind="stopped",
                    order="",
                    title=devices.shown(f"the train of {record.branch} is stopped"),
                    words=devices.shown(f"{len(record.queue)} wait: {note.what}"),
                    until=time.time() + 86400,
                    url=f"{self.site.address}/#/trains",
                )
            )

    def _of_ask(self, key: str, ask: AskRecord) -> Notice:
        return Notice(
            key=key,
            kind="asked",
            order=ask.order,
            title=devices.shown(ask.title or ask.order),
            words=devices.shown(f"{ask.agent} asks: {ask.words}"),
            until=ask.deadline,
            url=f"{self.site.address}/#/order/{ask.order}",
            links={
                decision: devices.make(self.site.tokens, self.site.address, ask, decision)
                for decision in ("allow", "deny")
            },
            number=ask.number,
            ask=ask,
        )

    def _of_row(self, key: str, row: OrderRow) -> Notice:
        words = f"failed: {row.why}" if row.needs == "failed" else f"finished: {row.stat or 'to be reviewed'}"
        return Notice(
            key=key,
            kind="failed" if row.needs == "failed" else "finished",
            order=row.id,
            title=devices.shown(row.title or row.id),
            words=devices.shown(words),
            until=time.time() + 86400,
            url=f"{self.site.address}/#/order/{row.id}",
        )

    def _tell(self, notice: Notice) -> None:
        self._sent[notice.key] = []
        while len(self._sent) > SENT_MAX:
            del self._sent[next(iter(self._sent))]
        for send in self.targets:
            self.site.start_task(self._deliver(notice, partial(send, notice, self.site.tokens.key())))
        for device in self.site.tokens.read().devices:
            if device.push is not None:
                self.site.start_task(self._deliver(notice, partial(self._push, device, notice)))

    async def _deliver(self, notice: Notice, send: Callable[[], Awaitable[Any]]) -> None:
        pause = FIRST_PAUSE
        for _ in range(TRIES):
            if notice.ask is not None and self._answered(notice.key):
                return  # there is nothing left to announce
            try:
                take_back = await send()
            except Exception as error:  # whatever a foreign host or program does only delays the notice
                log.info("a notice could not be delivered: %s", type(error).__name__)
                await asyncio.sleep(pause)
                pause *= 2
                continue
            if take_back is not None:
                self._sent.get(notice.key, []).append(take_back)
            return

    def _answered(self, key: str) -> bool:
        found = self.site.fleet.index.ask(key) if self.site.fleet.index is not None else None
        return found is not None and found[1] is not None

    def _take_back(self, key: str, words: str) -> None:
        sent, self._sent[key] = self._sent[key], []

        async def later(take_back: Callable[[str], Awaitable[None]]) -> None:
            try:
                await take_back(devices.shown(words))
            except Exception as error:  # it stays where it is, and its links say that it was answered
                log.info("a notice could not be taken back: %s", type(error).__name__)

        for take_back in sent:
            self.site.start_task(later(take_back))

    async def _push(self, device: Device, notice: Notice) -> Callable[[str], Awaitable[None]]:
        whole = len(notice.words) <= PUSH_TEXT_MAX
        message: dict[str, Any] = {
            "tag": notice.key,
            "order": notice.order,
            "title": notice.title[:120],
            "body": notice.words if whole else f"{notice.words[:PUSH_TEXT_MAX]}…",
            # A notice that does not show all of it offers no answer.
            "number": notice.number if whole and device.right != "watch" else None,
        }
        await send(self.site, device, message, seconds=notice.until - time.time())

        async def take_back(words: str) -> None:
            gone = {"tag": notice.key, "order": notice.order, "title": message["title"], "body": words, "over": True}
            await send(self.site, device, gone, seconds=3600)

        return take_back
