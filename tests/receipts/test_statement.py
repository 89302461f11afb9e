"""A receipt in an envelope that other people's verifiers accept."""

import base64
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from treadle.host.signing import Signer
from treadle.receipts.statement import envelope, key_id, statement
from treadle.testing.conversations.sidecar import SAMPLE_RECEIPT
from treadle.wire.common.jsontext import dumps
from treadle.wire.sidecar.receipts import Receipt, sealed

SIGNER = Signer(b"k" * 32)


def kept() -> Receipt:
    patch = {"kind": "patch", "path": "/runs/patch.diff", "kept": "/runs/patch.diff", "sha256": "ab" * 32, "bytes": 3}
    gone = {"kind": "log", "path": "out.log", "kept": None, "sha256": None, "problem": "it is not there"}
    return sealed(replace(SAMPLE_RECEIPT, usage_raw={"treadle": {"artifacts": [patch, gone]}}))


def stock_key(signer: Signer = SIGNER) -> SSlibKey:
    public = base64.b64decode(signer.public_key).hex()
    return SSlibKey(key_id(signer.public_key), "ed25519", "ed25519", {"public": public})


def test_a_stock_verifier_accepts_it_and_reads_the_statement() -> None:
    made = json.loads(dumps(envelope(kept(), SIGNER.sign, SIGNER.public_key)))
    found = Envelope.from_dict(made)
    assert list(found.verify([stock_key()], 1)) == [key_id(SIGNER.public_key)]
    assert found.payload_type == "application/vnd.in-toto+json"
    body = json.loads(found.payload)
    assert body["_type"] == "https://in-toto.io/Statement/v1" and body["predicateType"]
    assert [subject["digest"]["sha256"] for subject in body["subject"]] == [kept().receipt_sha256, "ab" * 32]
    assert body["predicate"]["receipt_sha256"] == kept().receipt_sha256


def test_a_stock_verifier_refuses_what_was_changed_or_signed_by_another() -> None:
    made = envelope(kept(), SIGNER.sign, SIGNER.public_key)
    other = Signer(b"o" * 32)
    with pytest.raises(VerificationError):
        Envelope.from_dict(json.loads(dumps(made))).verify([stock_key(other)], 1)
    payload = base64.b64decode(made["payload"]).replace(b'"complete"', b'"failed"')
    made["payload"] = base64.b64encode(payload).decode()
    with pytest.raises(VerificationError):
        Envelope.from_dict(made).verify([stock_key()], 1)


def test_a_receipt_without_a_hash_has_no_statement(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no hash"):
        statement(replace(SAMPLE_RECEIPT, receipt_sha256=None))
