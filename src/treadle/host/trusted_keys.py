"""Whose signatures count: a file with public keys, who they belong to, and from when until when they are good.

seen = "SHA256"        # optional: a receipt that the chain must still contain

[[key]]
public = "BASE64"      # as `treadle receipt key` prints it
who = "ci@example.com"
since = 2026-01-01     # optional
until = 2027-01-01     # optional
"""

import base64
import os
import tomllib
from datetime import UTC, date, datetime
from typing import Any

import msgspec

from treadle.errors import ConfigError
from treadle.host.signing import verify
from treadle.io.paths import config_file
from treadle.io.reading import read, read_if_there
from treadle.receipts.statement import key_id


class TrustedKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    public: str
    who: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def good_at(self, when: datetime) -> bool:
        return (self.since is None or self.since <= when) and (self.until is None or when < self.until)


class TrustedKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: tuple[TrustedKey, ...] = ()
    seen: str | None = None

    def problem(self, public_key: str, finished_at: str) -> str | None:
        """Why a signature with this key does not count for a receipt of that time; None if it does."""
        known = [one for one in self.key if one.public == public_key]
        if not known:
            return "it is signed with another key"
        if not any(one.good_at(datetime.fromisoformat(finished_at)) for one in known):
            return f"the key of {known[0].who or 'its signer'} was not good at {finished_at}"
        return None

    def who(self, public_key: str) -> str | None:
        return next((one.who or one.public for one in self.key if one.public == public_key), None)

    def signer(self, data: bytes, signatures: list[tuple[str, str]]) -> TrustedKey | None:
        """The key with which one of these signatures was made, if it is one of ours."""
        for identity, signature in signatures:
            for one in self.key:
                if key_id(one.public) == identity and verify(one.public, signature, data):
                    return one
        return None


def default_path() -> str:
    return os.path.join(os.path.dirname(config_file()), "trusted-keys.toml")


def trusted_keys(key: str | None = None, path: str | None = None) -> TrustedKeys | None:
    """Those in `path`, else just `key`, else those of the person's own file; None when there is none."""
    if path is None and key is not None:
        _check(key, "--key")
        return TrustedKeys(key=(TrustedKey(public=key),))
    place = path or default_path()
    data = read(place) if path is not None else read_if_there(place)
    if data is None:
        return None
    try:
        found = msgspec.convert(_with_moments(tomllib.loads(data.decode())), TrustedKeys)
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{place} is no list of keys: {error}", hint="see docs/reference/receipts.md") from error
    for one in found.key:
        _check(one.public, place)
    return found


def _check(public: str, where: str) -> None:
    try:
        good = len(base64.b64decode(public, validate=True)) == 32
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"{where}: {public[:60]!r} is no public key", hint="treadle receipt key prints yours")


def _with_moments(tree: Any) -> Any:
    """With dates as the beginning of that day, and times without a zone in UTC."""
    if isinstance(tree, dict):
        return {name: _with_moments(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_with_moments(value) for value in tree]
    if isinstance(tree, date) and not isinstance(tree, datetime):
        tree = datetime(tree.year, tree.month, tree.day)
    return tree.replace(tzinfo=UTC) if isinstance(tree, datetime) and tree.tzinfo is None else tree
