"""A receipt in statements and envelopes that other people's verifiers accept."""

import base64
import json
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from tests.wire.conversations.sidecar import SAMPLE_RECEIPT
from treadle.host.signing import Signer
from treadle.receipts.statement import (
    PREDICATE,
    PROVENANCE,
    envelope,
    key_id,
    provenance,
    repository_url,
    same_repository,
    statement,
    summary,
    unwrapped,
)
from treadle.wire.common.jsontext import dumps
from treadle.wire.sidecar.receipts import Receipt, sealed

SIGNER = Signer(b"k" * 32)
BASE, TREE, COMMIT = "b" * 40, "c" * 40, "d" * 40


def kept(**place: Any) -> Receipt:
    patch = {"kind": "patch", "path": "/runs/patch.diff", "kept": "/runs/patch.diff", "sha256": "ab" * 32, "bytes": 3}
    named = {"kind": "patch", "path": "commit", "kept": "/runs/artifacts/0-commit", "sha256": "cd" * 32, "bytes": 3}
    gone = {"kind": "log", "path": "out.log", "kept": None, "sha256": None, "problem": "it is not there"}
    where = {"base_commit": BASE, "result_tree": TREE, "result_commit": COMMIT, "source": "/home/me/x", **place}
    order = {"task": "fix it", "agent": "native", "model": "a:b", "stored": "/state/orders/x.json"}
    more = {
        "artifacts": [named, patch, gone],
        "workspace": where,
        "order": order,
        "host": "treadle 9",
        "confinement": None,
    }
    return sealed(replace(SAMPLE_RECEIPT, usage_raw={"treadle": more}))


def stock_key(signer: Signer = SIGNER) -> SSlibKey:
    public = base64.b64decode(signer.public_key).hex()
    return SSlibKey(key_id(signer.public_key), "ed25519", "ed25519", {"public": public})


def digests(made: dict[str, Any]) -> list[dict[str, str]]:
    return [subject["digest"] for subject in made["subject"]]


RESULT = [{"gitCommit": COMMIT}, {"gitTree": TREE}, {"sha256": "ab" * 32}]


@pytest.mark.parametrize("make", [statement, provenance])
def test_a_stock_verifier_accepts_it_and_reads_the_statement(make: Any) -> None:
    made = json.loads(dumps(envelope(make(kept()), SIGNER.sign, SIGNER.public_key)))
    found = Envelope.from_dict(made)
    assert list(found.verify([stock_key()], 1)) == [key_id(SIGNER.public_key)]
    assert found.payload_type == "application/vnd.in-toto+json"
    assert json.loads(found.payload) == json.loads(dumps(make(kept())))
    body, signed, signatures = unwrapped(made)
    assert unwrapped({"dsseEnvelope": made}) == (body, signed, signatures) and body["subject"]


def test_the_parsers_of_in_toto_and_slsa_accept_both_statements() -> None:
    pytest.importorskip("in_toto_attestation")
    from google.protobuf import json_format
    from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
    from in_toto_attestation.v1.statement import Statement
    from in_toto_attestation.v1.statement_pb2 import Statement as Parsed

    for made in (statement(kept()), provenance(kept(repository="https://example.com/x"))):
        found = Statement.copy_from_pb(json_format.ParseDict(json.loads(dumps(made)), Parsed()))
        found.validate()
        assert found.pb.predicate_type in (PREDICATE, PROVENANCE)
    parsed = json_format.ParseDict(json.loads(dumps(made["predicate"])), Provenance())
    source = parsed.build_definition.resolved_dependencies[0]
    assert source.uri == "git+https://example.com/x" and dict(source.digest) == {"gitCommit": BASE}


def test_the_provenance_says_what_was_made_from_what_and_how() -> None:
    receipt = kept(base_tree=TREE, repository="https://example.com/x", mode="staged")
    raw = receipt.usage_raw["treadle"]
    walls = {"method": "m", "covers": "agent", "network": "on"}
    order = {"task": "t", "agent": "a", "model": "a b:c", "max_turns": 3, "max_budget_usd": 1.5}
    more = {"order": order, "policy": {"rules": {"deny_read": ["x"]}, "lists": {"deny_read": "kernel"}}}
    more |= {"observed": {"check": {"command": "make", "exit_code": 0}, "models": ["m n"]}, "confinement": walls}
    backend = replace(receipt.backend, id="my agent", backend_version="1", adapter_version="2")
    made = provenance(replace(receipt, usage_raw={"treadle": {**raw, **more}}, backend=backend))
    source = {"name": "source", "uri": "git+https://example.com/x", "digest": {"gitCommit": BASE, "gitTree": TREE}}
    meta = receipt.meta
    assert made["predicate"] == {
        "buildDefinition": {
            "buildType": "urn:treadle:host-run:1",
            "externalParameters": {
                **{"task": "t", "agent": "a", "model": "a b:c", "policy": {"deny_read": ["x"]}, "check": "make"},
                **{"limits": {"max_turns": 3, "max_budget_usd": 1.5}, "source": source},
            },
            "internalParameters": {
                **{"workspace": "staged", "confinement": walls, "enforced": {"deny_read": "kernel"}},
                "outcome": "complete",
                "claimed": {"agent": to_builtins(backend), "models": None},
            },
            "resolvedDependencies": [
                source,
                {"name": "agent", "uri": "urn:treadle:agent:a"},
                {"name": "model", "uri": "urn:treadle:model:m_n"},
            ],
        },
        "runDetails": {
            "builder": {"id": "urn:treadle:host:1", "version": {"treadle": "9"}},
            "metadata": {"invocationId": meta.run_id, "startedOn": meta.started_at, "finishedOn": meta.finished_at},
            "byproducts": [{"name": f"receipt/{meta.run_id}", "digest": {"sha256": receipt.receipt_sha256}}],
        },
    }
    little = {"workspace": {"result_tree": TREE}}
    definition = provenance(replace(receipt, usage_raw={"treadle": little}))["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["source"] is None
    assert definition["resolvedDependencies"] == []
    without = kept(base_commit=None, base_tree=TREE)
    assert provenance(without)["predicate"]["buildDefinition"]["resolvedDependencies"][0] == {
        "name": "source",
        "digest": {"gitTree": TREE},
    }


def test_the_provenance_names_no_place_of_this_machine() -> None:
    text = dumps(provenance(kept()))
    assert "/home" not in text and "/runs" not in text and "/state" not in text
    assert [one["name"] for one in json.loads(text)["subject"]] == ["commit", "tree", "patch.diff"]


def test_a_stock_verifier_refuses_what_was_changed_or_signed_by_another() -> None:
    made = envelope(statement(kept()), SIGNER.sign, SIGNER.public_key)
    other = Signer(b"o" * 32)
    with pytest.raises(VerificationError):
        Envelope.from_dict(json.loads(dumps(made))).verify([stock_key(other)], 1)
    payload = base64.b64decode(made["payload"]).replace(b'"complete"', b'"failed"')
    made["payload"] = base64.b64encode(payload).decode()
    with pytest.raises(VerificationError):
        Envelope.from_dict(made).verify([stock_key()], 1)


def test_what_nothing_vouches_for_has_no_statement() -> None:
    with pytest.raises(ValueError, match="no hash"):
        statement(replace(SAMPLE_RECEIPT, receipt_sha256=None))
    with pytest.raises(ValueError, match="does not name the run's result"):
        provenance(replace(SAMPLE_RECEIPT, usage_raw={}))
    with pytest.raises(ValueError, match="the run is partial, and only complete runs have provenance"):
        provenance(replace(kept(), outcome="partial"))
    with pytest.raises(ValueError, match="no check ran"):
        summary(kept())


@pytest.mark.parametrize(
    ("ok", "outcome", "result"), [(1, "complete", "PASSED"), (1, "failed", "FAILED"), (0, "complete", "FAILED")]
)
def test_the_summary_says_whether_the_check_and_the_run_went_well(ok: int, outcome: Any, result: str) -> None:
    receipt = kept()
    more = {**receipt.usage_raw["treadle"], "observed": {"check": {"command": "make", "exit_code": 0, "ok": bool(ok)}}}
    made = summary(replace(receipt, usage_raw={"treadle": more}, outcome=outcome))
    assert made["predicate"]["verificationResult"] == result and digests(made) == RESULT
    assert made["predicate"]["inputAttestations"] == [{"digest": {"sha256": receipt.receipt_sha256}}]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://user:secret@example.com/a/b.git", "https://example.com/a/b.git"),
        ("git@example.com:a/b.git", "ssh://example.com/a/b.git"),
        ("ssh://git@example.com:2222/a/b", "ssh://example.com:2222/a/b"),
        ("/srv/git/a", None),
        ("file:///srv/git/a", None),
        ("../a", None),
        ("https://[", None),
        ("https://example.com:x/a", None),
        ("https:///a", None),
        ("http://example.com/a?b", None),
        ("git://example.com/a", "git://example.com/a"),
        ("example.com:/a", "ssh://example.com/a"),
    ],
)
def test_an_address_is_shown_without_who_asks_and_a_path_is_none(given: str, shown: str | None) -> None:
    assert repository_url(given) == shown


def test_a_repository_is_the_same_however_it_is_reached() -> None:
    assert same_repository("git@example.com:A/b.git", "https://example.com/a/b/")
    assert same_repository("example.com/a/b", "git+https://example.com/a/b.git")
    assert not same_repository("example.com/a/b", "https://example.com/a/c")
    assert not same_repository("example.com/a/b", "https://evil.com/example.com/a/b")
    assert not same_repository("https://example.com/?r=a", "https://example.com/?r=b")
