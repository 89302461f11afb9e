"""Who may use the page and the API: one secret per device, stored as a hash, with the rights of the device.

    watch    look at everything
    answer   watch, and answer what agents ask
    all      everything that the command line can do

A link carries a code in its fragment, which no server and no log sees; the page exchanges it, once, for a cookie and a
proof. A browser sends the cookie to every port of the machine, so the cookie alone opens nothing: the proof is kept in
the storage of the page's origin, which other ports cannot read, and comes with every request. A script has a token,
and neither takes the place of the other. Tokens, codes and the key that signs answer links are in one private file.
"""

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from treadle.errors import ConfigError, NotFound
from treadle.io.paths import private_dir, state_dir
from treadle.io.records import FileRecord

FORMAT = 2
"""In format 1, the cookie of a page was a token like any other, so its devices are not taken over."""
Right: TypeAlias = Literal["watch", "answer", "all"]
RIGHTS: tuple[Right, ...] = ("watch", "answer", "all")
LINK_SECONDS = 600.0
SHARE_PAGE = "/share.html"
SHARE_SECONDS, SHARE_MAX = 3600.0, 7 * 86400.0
"""How long a link to one terminal works, unless asked otherwise, and at most."""
USED_EVERY = 60.0
"""Seconds between two notes of when a device was last seen."""
T = TypeVar("T")


class PushKeys(msgspec.Struct, frozen=True, kw_only=True):
    p256dh: Annotated[str, Meta(max_length=200)]
    auth: Annotated[str, Meta(max_length=100)]


class PushSubscription(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a browser receives messages while the page is closed, and the keys to encrypt for it."""

    endpoint: Annotated[str, Meta(max_length=2000)]
    keys: PushKeys


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device that holds a token, or a page that holds a cookie and a proof. Only their hashes are stored."""

    id: str
    name: str
    right: Right
    created: float
    sha256: str
    proof: str = ""
    """The hash of a page's proof; empty for a script, whose token is all it needs."""
    used: float = 0.0
    push: PushSubscription | None = None


class OneTimeLink(msgspec.Struct, frozen=True, kw_only=True):
    sha256: str
    name: str
    right: Right
    expires: float


class SharedTerminal(msgspec.Struct, frozen=True, kw_only=True):
    """A link with which one terminal can be watched until it expires."""

    id: str
    sha256: str
    terminal: str
    started: str
    """When its program was started: a later one of the same name is not shared."""
    created: float
    expires: float


class TokenFile(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    devices: tuple[Device, ...] = ()
    links: tuple[OneTimeLink, ...] = ()
    shared: tuple[SharedTerminal, ...] = ()
    key: str = ""
    """Signs the links that answer a question."""
    push_key: str = ""
    """Signs messages to browsers whose page is closed."""
    answered: dict[str, float] = {}
    """Signed links that were used, kept until they would have expired anyway."""


TOKENS = FileRecord(
    TokenFile,
    format=FORMAT,
    older={1: lambda tree: {**tree, "format": 2, "devices": []}},  # its devices had no rights of their own
    hint="remove it: all devices must sign in again",
)


def directory() -> str:
    return private_dir(os.path.join(state_dir(), "web"))


class Tokens:
    def __init__(self, path: str = "") -> None:
        self.path = path or os.path.join(directory(), "tokens.json")
        self._seen: tuple[tuple[int, int], TokenFile] | None = None

    def read(self) -> TokenFile:
        """The stored devices, read again only when the file has changed: another process may write it."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return TokenFile()
        mark = (found.st_mtime_ns, found.st_ino)
        if self._seen is None or self._seen[0] != mark:
            self._seen = (mark, TOKENS.load(self.path) or TokenFile())
        return self._seen[1]

    def _change(self, change: Callable[[TokenFile], tuple[TokenFile, T]]) -> T:
        """Read, change and write under one lock: of two changes at once, by the page and a command, none is lost. Who
        only reads needs no lock, because the file is replaced as a whole."""
        with TOKENS.locked(self.path):
            stored, result = change(self.read())
            TOKENS.save(self.path, stored)
            self._seen = None
        return result

    def make(self, name: str, right: Right) -> tuple[Device, str]:
        """Make a device of this name with a token for scripts. This is the only time its token is shown."""
        token = secrets.token_urlsafe(32)
        return self._add(name, right, token, ""), token

    def make_page(self, name: str, right: Right) -> tuple[Device, str, str]:
        """Make a device for a page, with a cookie and a proof."""
        cookie, proof = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        return self._add(name, right, cookie, _hash(proof)), cookie, proof

    def _add(self, name: str, right: Right, secret: str, proof: str) -> Device:
        device = Device(
            id=secrets.token_hex(4), name=name, right=right, created=time.time(), sha256=_hash(secret), proof=proof
        )
        self._change(lambda stored: (replace(stored, devices=(*stored.devices, device)), None))
        return device

    def link(self, name: str, right: Right, seconds: float = LINK_SECONDS) -> str:
        """A code that can be exchanged once for a token, until it expires."""
        if right not in RIGHTS:
            raise ConfigError(f"{right!r} is not a right", hint="watch, answer or all")
        code = secrets.token_urlsafe(24)
        made = OneTimeLink(sha256=_hash(code), name=name, right=right, expires=time.time() + seconds)
        self._change(lambda stored: (replace(stored, links=(*_living(stored.links), made)), None))
        return code

    def exchange(self, code: str, agent: str = "") -> tuple[Device, str, str] | None:
        """Exchange a code for a cookie and a proof; None for a code that is unknown, expired or used."""
        wanted = _hash(code)
        if not any(hmac.compare_digest(link.sha256, wanted) for link in _living(self.read().links)):
            return None  # a guess costs neither a lock nor a write

        def take(stored: TokenFile) -> tuple[TokenFile, OneTimeLink | None]:
            links = _living(stored.links)
            found = next((link for link in links if hmac.compare_digest(link.sha256, wanted)), None)
            return replace(stored, links=tuple(link for link in links if link is not found)), found

        link = self._change(take)
        return None if link is None else self.make_page(link.name or _program(agent), link.right)

    def check(self, token: str) -> Device | None:
        """The script that holds this token. A page's cookie is none."""
        return self._find(token, "")

    def check_page(self, cookie: str, proof: str) -> Device | None:
        """The page that holds this cookie and this proof; one without the other is worth nothing."""
        return self._find(cookie, _hash(proof))

    def _find(self, secret: str, proof: str) -> Device | None:
        wanted = _hash(secret)
        for found in self.read().devices:
            if hmac.compare_digest(found.sha256, wanted) and hmac.compare_digest(found.proof, proof):
                if time.time() - found.used > USED_EVERY:
                    self._note_use(found)
                return found
        return None

    def _note_use(self, device: Device) -> None:
        def note(stored: TokenFile) -> tuple[TokenFile, None]:
            devices = tuple(
                replace(each, used=time.time()) if each.id == device.id else each for each in stored.devices
            )
            return replace(stored, devices=devices), None

        self._change(note)

    def revoke(self, name: str) -> Device:
        """Revoke a device's token, by its id or name."""

        def remove(stored: TokenFile) -> tuple[TokenFile, Device]:
            found = [each for each in stored.devices if name in (each.id, each.name)]
            if len(found) != 1:
                raise NotFound(f"{len(found) or 'no'} devices are called {name!r}", hint="`treadle serve --devices`")
            return replace(stored, devices=tuple(each for each in stored.devices if each is not found[0])), found[0]

        return self._change(remove)

    def set_push(self, device: str, subscription: PushSubscription | None) -> None:
        """Note where a device receives messages while the page is closed. One browser is one device."""

        def note(stored: TokenFile) -> tuple[TokenFile, None]:
            same = None if subscription is None else subscription.endpoint
            devices = tuple(
                replace(each, push=subscription)
                if each.id == device
                else replace(each, push=None)
                if each.push is not None and each.push.endpoint == same
                else each
                for each in stored.devices
            )
            return replace(stored, devices=devices), None

        self._change(note)

    # Links to one terminal...

    def share(self, terminal: str, started: str, seconds: float) -> tuple[SharedTerminal, str]:
        """A code with which this terminal can be watched until it expires."""
        code, now = secrets.token_urlsafe(24), time.time()
        made = SharedTerminal(
            id=secrets.token_hex(4),
            sha256=_hash(code),
            terminal=terminal,
            started=started,
            created=now,
            expires=now + min(seconds, SHARE_MAX),
        )
        self._change(lambda stored: (replace(stored, shared=(*_living(stored.shared), made)), None))
        return made, code

    def shares(self) -> tuple[SharedTerminal, ...]:
        return _living(self.read().shared)

    def watcher(self, code: str) -> SharedTerminal | None:
        """What may be watched with this code; None when it has expired or was revoked."""
        wanted = _hash(code)
        return next((each for each in self.shares() if hmac.compare_digest(each.sha256, wanted)), None)

    def unshare(self, name: str) -> SharedTerminal:
        """Revoke a link to a terminal, by its id."""

        def remove(stored: TokenFile) -> tuple[TokenFile, SharedTerminal]:
            found = next((each for each in stored.shared if each.id == name), None)
            if found is None:
                raise NotFound(f"there is no share {name!r}", hint="`treadle share --list`")
            return replace(stored, shared=tuple(each for each in stored.shared if each is not found)), found

        return self._change(remove)

    # Signed links, with which one question is answered...

    def sign(self, what: str, expires: float) -> str:
        """A signature for a link that can be used once, until it expires."""
        return hmac.new(self.key(), f"{what} {expires:.0f}".encode(), hashlib.sha256).hexdigest()[:40]

    def signed(self, what: str, expires: float, signature: str) -> bool:
        return time.time() < expires and hmac.compare_digest(self.sign(what, expires), signature)

    def use(self, signature: str, expires: float) -> bool:
        """Mark a signed link as used. False when it was used before."""

        def note(stored: TokenFile) -> tuple[TokenFile, bool]:
            living = {each: until for each, until in stored.answered.items() if until > time.time()}
            return replace(stored, answered={**living, signature: expires}), signature not in living

        return self._change(note)

    def key(self) -> bytes:
        """The key that signs links and notices; made when it is first needed."""
        if not self.read().key:
            fresh = secrets.token_hex(32)
            self._change(lambda stored: (replace(stored, key=stored.key or fresh), None))
        return bytes.fromhex(self.read().key)

    def push_key(self, fresh: str) -> str:
        """The key that signs messages to browsers: the stored one, else this fresh one."""
        return self.read().push_key or self._change(
            lambda stored: (replace(stored, push_key=stored.push_key or fresh), stored.push_key or fresh)
        )


L = TypeVar("L", OneTimeLink, SharedTerminal)


def _living(links: tuple[L, ...]) -> tuple[L, ...]:
    return tuple(link for link in links if link.expires > time.time())


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _program(agent: str) -> str:
    """The name of the browser and its system, from its User-Agent."""
    system = next(
        (name for name in ("iPhone", "iPad", "Android", "Windows", "Macintosh", "Linux") if name in agent), ""
    )
    program = next((name for name in ("Firefox", "Edg", "Chrome", "Safari") if name in agent), "browser")
    return f"{'Edge' if program == 'Edg' else program}{f' on {system}' if system else ''}"


def may(device: Any, right: Right) -> bool:
    return RIGHTS.index(device.right) >= RIGHTS.index(right)
