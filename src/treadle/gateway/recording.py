"""The calls of a run, stored so that it can be played again without its service: `--record` and `treadle replay`.

    recordings/ID/run.json      which agent, where, with which prompts
    recordings/ID/calls.jsonl   one line for each call, in the order in which their replies ended
    recordings/ID/blobs/SHA     bodies of requests and replies, by their content, without keys

A replay answers each call from the record: with the reply of the first call that is left and asks the same, once dates,
times and ids are taken out of both. A call that asks something else gets the next reply that is left, and the first
place where the two differ is named.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from treadle.errors import ConfigError, NotFound
from treadle.io import files
from treadle.io.paths import private_dir, state_dir
from treadle.io.records import FileRecord
from treadle.redact import Redactor

FORMAT = 1
LARGEST = 256 * 1024 * 1024
"""Bytes of one recording; what comes after that is not stored, and a warning says so."""
_CHANGING = {
    "date": r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?",
    "date in words": r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day,? \w+ \d{1,2},? \d{4}\b"
    r"|\b[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d{4}\b",
    "uuid": r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "id": r"\b(?:toolu|call|msg|resp|req|ses|session|prompt|thread|fc|rs|chatcmpl)[_-][A-Za-z0-9_-]{6,}\b"
    r"|\b[0-9a-f]{16,64}\b|(?<=\bID: )[0-9a-f]{4,}\b",
    "time": r"\b1[6-9]\d{8}(?:\d{3})?\b",
    "duration": r"\b\d+(?:\.\d+)? ?(?:ms|seconds?|secs?|s)\b",
}
_PATTERN = re.compile("|".join(f"(?P<k{number}>{text})" for number, text in enumerate(_CHANGING.values())))
_KINDS = tuple(_CHANGING)


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    method: str
    path: str
    request: str
    status: int
    headers: dict[str, str]
    reply: str
    whole: bool = True


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    id: str
    agent: str
    version: str = ""
    cwd: str
    model: str | None = None
    mode: str | None = None
    at: float
    base: str = ""
    """The commit that was checked out; empty where there is none."""
    prompts: tuple[str, ...] = ()


RUN = FileRecord(RecordedRun, format=FORMAT, pretty=True)


def place_of(id: str) -> str:
    """The directory of a recording. Raises NotFound."""
    path = os.path.join(state_dir(), "recordings", id)
    if not re.fullmatch(r"[\w.-]+", id) or not os.path.exists(os.path.join(path, "run.json")):
        raise NotFound(f"there is no recording {id!r}", hint="`treadle replay` lists them; --record makes one")
    return path


def recordings() -> Iterator[RecordedRun]:
    """All of them, the latest first."""
    top = os.path.join(state_dir(), "recordings")
    ids = os.listdir(top) if os.path.isdir(top) else []
    found = [RUN.load_whole(os.path.join(top, id, "run.json")) for id in ids]
    yield from sorted(filter(None, found), key=lambda run: -run.at)


class CallRecorder:
    def __init__(self, run: RecordedRun, secrets: list[str]) -> None:
        """`secrets`: what must not be stored."""
        self._place = private_dir(os.path.join(private_dir(os.path.join(state_dir(), "recordings")), run.id))
        self._blobs = private_dir(os.path.join(self._place, "blobs"))
        self._run = run
        self._redactor = Redactor(secrets)
        self._size = self._number = 0
        self._save()

    def prompt(self, text: str, version: str) -> None:
        prompts = (*self._run.prompts, self._redactor.text(text))
        self._run = msgspec.structs.replace(self._run, prompts=prompts, version=version)
        self._save()

    def call(
        self, method: str, path: str, body: bytes, status: int, headers: Mapping[str, str], reply: bytes, whole: bool
    ) -> str:
        """Store a call. Returns what a person should know: that the recording is full."""
        self._number += 1
        headers, reply = _unpacked(headers, reply)
        reply = self._redactor.text(reply.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        asked = self._redactor.text(body.decode("utf-8", "replace")).encode()
        full = self._size > LARGEST
        self._size += len(asked) + len(reply)
        if self._size > LARGEST:
            return "" if full else f"the recording has {LARGEST >> 20} MB: what follows is not stored"
        shown = {name: headers[name] for name in ("content-type",) if name in headers}
        made = RecordedCall(
            number=self._number,
            method=method,
            path=path,
            request=self._blob(asked),
            status=status,
            headers=shown,
            reply=self._blob(reply),
            whole=whole,
        )
        files.append_line(os.path.join(self._place, "calls.jsonl"), msgspec.json.encode(made))
        return ""

    def _blob(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        path = os.path.join(self._blobs, name)
        if not os.path.exists(path):
            files.write_atomic(path, data, sync=False)
        return name

    def _save(self) -> None:
        RUN.save(os.path.join(self._place, "run.json"), self._run)


def _unpacked(headers: Mapping[str, str], reply: bytes) -> tuple[Mapping[str, str], bytes]:
    """A reply as it can be searched for keys; what is packed in a way that we did not ask for is left out."""
    packed = headers.get("content-encoding", "").strip().lower()
    if packed in ("", "identity"):
        return headers, reply
    try:
        plain = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(reply, LARGEST + 1) if "gzip" in packed else b""
    except zlib.error:
        plain = b""
    return {name: text for name, text in headers.items() if name != "content-encoding"}, plain


class CallReplay:
    """Answers the calls of a run from a record of another."""

    def __init__(self, id: str) -> None:
        self._place = place_of(id)
        self.run = RUN.get(os.path.join(self._place, "run.json"))
        lines = (files.read_if_there(os.path.join(self._place, "calls.jsonl")) or b"").splitlines()
        self._left = [msgspec.json.decode(line, type=RecordedCall) for line in lines]
        if not self._left:
            raise ConfigError(f"the recording {id} has no calls", hint="only calls through the gateway are recorded")
        self.answered = 0
        self.differences: list[str] = []
        self.normalised: set[str] = set()

    @property
    def unasked(self) -> int:
        """How many recorded calls were not made."""
        return len(self._left)

    def answer(self, path: str, body: bytes) -> tuple[RecordedCall, bytes] | None:
        """The reply to a call; None when there is none left for this path."""
        self.answered += 1
        same = [call for call in self._left if call.path == path]
        if not same:
            self.differences.append(f"call {self.answered}: {path} was not asked again in the record")
            return None
        asked = self._plain(body)
        found = next((call for call in same if self._plain(self._read(call.request)) == asked), None)
        if found is None:
            found = same[0]
            where = first_difference(self._plain(self._read(found.request)), asked)
            self.differences.append(f"call {self.answered}: {where}")
        self._left.remove(found)
        return found, self._read(found.reply)

    def _read(self, name: str) -> bytes:
        return files.read(os.path.join(self._place, "blobs", name))

    def _plain(self, body: bytes) -> Any:
        """The request without what differs from run to run."""
        try:
            return self._without(msgspec.json.decode(body))
        except (msgspec.DecodeError, RecursionError):
            return body.decode("utf-8", "replace")

    def _without(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._without(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._without(one) for one in value]
        if isinstance(value, str) and value.startswith("{"):  # a client's own table, whose order changes
            with suppress(msgspec.DecodeError, RecursionError):
                return self._without(msgspec.json.decode(value))
        if type(value) is int and re.fullmatch(_CHANGING["time"], str(value)):
            self.normalised.add("time")
            return "<time>"
        return _PATTERN.sub(self._name, value) if isinstance(value, str) else value

    def _name(self, match: re.Match[str]) -> str:
        kind = _KINDS[int((match.lastgroup or "k0")[1:])]
        self.normalised.add(kind)
        return f"<{kind}>"


def first_difference(recorded: Any, asked: Any) -> str:
    """Where two requests differ first, in words."""
    if not isinstance(recorded, dict) or not isinstance(asked, dict):
        return "the request differs"
    for name in dict.fromkeys((*recorded, *asked)):
        before, now = recorded.get(name), asked.get(name)
        if before == now:
            continue
        if isinstance(before, list) and isinstance(now, list):
            at = next((at for at, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]), None)
            if at is None:
                return f"{name} has {len(now)} entries in place of {len(before)}"
            return f"the {name} list differs at {at + 1}: {_near(before[at], now[at])}"
        return f"{name} differs: {_near(before, now)}"
    return "the request differs"


def _near(before: Any, now: Any) -> str:
    """Both texts around the first letter that differs."""
    one, other = (msgspec.json.encode(value, order="sorted").decode() for value in (before, now))
    pairs = enumerate(zip(one, other, strict=False))
    at = next((at for at, pair in pairs if pair[0] != pair[1]), min(len(one), len(other)))
    start = max(0, at - 20)
    return f"{other[start : at + 40]!r}, recorded was {one[start : at + 40]!r}"
