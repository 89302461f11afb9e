"""Large results in the engine's object store: patches, bundles, transcripts. Read by pull, checked by digest.

An object `NODE/NAME` belongs to a node: its parts are on subjects with the node's name, and no other worker may write
there. What submitters send has no owner, and any NATS object store client can read it.
"""

import base64
import hashlib
import secrets
from typing import Any

import msgspec

from treadle.errors import NotFound, StorageError
from treadle.fleet.engine.bus import Bus
from treadle.fleet.engine.layout import OBJECTS
from treadle.fleet.engine.pull import Pull

CHUNK = 128 * 1024
WAIT_SECONDS = 10.0
"""How long the engine may take for the next part."""


async def put(bus: Bus, name: str, data: bytes, *, slot: str = "") -> dict[str, Any]:
    """Store an object under a name, replacing what was there.

    The old chunks expire with the stream's age. An object that is written often alternates between two slots: its
    chunks replace those of the write before last, so the last one stays whole until the new one is complete.
    """
    nuid = hashlib.sha256(f"{name} {slot}".encode()).hexdigest()[:22] if slot else secrets.token_hex(11)
    chunks = 0
    for start in range(0, len(data), CHUNK):
        first = {"Nats-Rollup": "sub"} if slot and not chunks else None
        await bus.publish(_chunks(name, nuid), data[start : start + CHUNK], first)
        chunks += 1
    digest = "SHA-256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    info = {
        "name": name,
        "bucket": "fleet",
        "nuid": nuid,
        "size": len(data),
        "chunks": chunks,
        "digest": digest,
        "options": {"max_chunk_size": CHUNK},
    }
    await bus.publish(_meta(name), msgspec.json.encode(info), {"Nats-Rollup": "sub"})
    return info


async def get(bus: Bus, name: str) -> bytes:
    message = await bus.look(f"$JS.API.DIRECT.GET.{OBJECTS}.{_meta(name)}")
    if (message.headers or {}).get("Status"):
        raise NotFound(f"there is no object {name!r}", hint="results are kept for 30 days")
    info = msgspec.json.decode(message.data)
    parts: list[bytes] = []
    if info["chunks"]:
        pull = Pull(bus, OBJECTS, filters=(_chunks(name, info["nuid"]),))
        try:
            while len(parts) < info["chunks"]:
                some = await pull.next(WAIT_SECONDS)
                if not some:
                    raise StorageError(f"the object {name!r} has only {len(parts)} of its {info['chunks']} parts")
                parts += [each.data for each in some]
        finally:
            await pull.close()
    data = b"".join(parts)
    digest = "SHA-256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    if len(data) != info["size"] or digest != info["digest"]:
        raise StorageError(f"the object {name!r} is damaged: its digest does not fit")
    return data


def owned(node: str, name: str) -> str:
    """The name of an object that belongs to a node."""
    return f"{node}/{name}"


def _meta(name: str) -> str:
    owner, _, rest = name.rpartition("/")
    return _at("M", owner, base64.urlsafe_b64encode(rest.encode()).decode())


def _chunks(name: str, nuid: str) -> str:
    return _at("C", name.rpartition("/")[0], nuid)


def _at(kind: str, owner: str, last: str) -> str:
    return ".".join(filter(None, ("$O.fleet", kind, owner, last)))
