"""A receipt for standard tools: an in-toto statement (v1) in a DSSE envelope, signed with the person's key.

The subjects are files that a verifier may have: the patch and the other files that were kept of the run. The whole
receipt is the predicate, so its own hash can be checked from there.
"""

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from treadle.wire.sidecar.receipts import Receipt, encode

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:treadle:receipt:1"
PAYLOAD = "application/vnd.in-toto+json"


def statement(receipt: Receipt) -> dict[str, Any]:
    """Raises ValueError when the receipt has no hash, because then nothing vouches for its content."""
    if receipt.receipt_sha256 is None:
        raise ValueError("the receipt has no hash")
    subjects = [{"name": f"receipt/{receipt.meta.run_id}", "digest": {"sha256": receipt.receipt_sha256}}]
    raw = receipt.usage_raw if isinstance(receipt.usage_raw, dict) else {}
    for one in (raw.get("treadle") or {}).get("artifacts") or []:
        if one.get("sha256"):
            subjects.append({"name": one["path"], "digest": {"sha256": one["sha256"]}})
    return {
        "_type": STATEMENT,
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": msgspec.json.decode(encode(receipt)),
    }


def envelope(receipt: Receipt, sign: Callable[[bytes], str], public_key: str) -> dict[str, Any]:
    """The signed envelope. `sign` returns base64; the key's id is the SHA-256 of its public half."""
    payload = msgspec.json.encode(statement(receipt), order="sorted")
    return {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id(public_key), "sig": sign(encoded(PAYLOAD, payload))}],
    }


def key_id(public_key: str) -> str:
    return hashlib.sha256(base64.b64decode(public_key)).hexdigest()


def encoded(kind: str, payload: bytes) -> bytes:
    """The bytes that are signed: the pre-authentication encoding of DSSE v1."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
