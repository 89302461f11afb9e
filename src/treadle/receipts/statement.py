"""A receipt for standard tools: in-toto statements (v1), each in a DSSE envelope, signed once, when the run ended.

The receipt itself is one of them, so that its own hash can be checked from there. Work that is complete has SLSA
provenance (v1): what was made, from which repository and commit, by which agent and order; a run that ended otherwise
made nothing that anybody should take for good. Where a check ran there is a verification summary, which says PASSED or
FAILED. The subjects are what we made of the run ourselves: tree, commit and patch; a file that the agent names is its
claim. None of them names a path of this machine, except the receipt.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Required, TypedDict
from urllib.parse import urlsplit

import msgspec

from treadle.receipts.trace import ours
from treadle.wire.sidecar.receipts import Receipt, encode

STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
SUMMARY = "https://slsa.dev/verification_summary/v1"
PREDICATE = "urn:treadle:receipt:1"
BUILD_TYPE = "urn:treadle:host-run:1"
BUILDER = "urn:treadle:host:1"
PAYLOAD = "application/vnd.in-toto+json"
_SCP = re.compile(r"(?:[\w.+-]+@)?([\w.-]+):(?!//)([^\s]+)")


def statement(receipt: Receipt) -> dict[str, Any]:
    """The one with the whole receipt. Raises ValueError when it has no hash, because then nothing vouches for it."""
    if receipt.receipt_sha256 is None:
        raise ValueError("the receipt has no hash")
    own = {"name": f"receipt/{receipt.meta.run_id}", "digest": {"sha256": receipt.receipt_sha256}}
    return {
        "_type": STATEMENT,
        "subject": [own, *_subjects(receipt)],
        "predicateType": PREDICATE,
        "predicate": msgspec.json.decode(encode(receipt)),
    }


def provenance(receipt: Receipt) -> dict[str, Any]:
    """SLSA provenance of what the run made. Raises ValueError when it is not known what that is, or it is not complete:
    who reads only provenance would take it for good."""
    subjects = [*_subjects(receipt)]
    if not subjects:
        raise ValueError("the receipt does not name the run's result")
    if receipt.outcome != "complete":
        raise ValueError(f"the run is {receipt.outcome}, and only complete runs have provenance")
    more = ours(receipt)
    order, place, meta = more.get("order") or {}, more.get("workspace") or {}, receipt.meta
    source = _source(place)
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            "task": order.get("task"),
            "agent": order.get("agent"),
            "model": order.get("model"),
            "policy": (more.get("policy") or {}).get("rules"),
            "limits": {"max_turns": order.get("max_turns"), "max_budget_usd": order.get("max_budget_usd")},
            "check": ((more.get("observed") or {}).get("check") or {}).get("command"),
            "source": source,
        },
        "internalParameters": {
            "workspace": place.get("mode"),
            "confinement": more.get("confinement"),
            "enforced": (more.get("policy") or {}).get("lists"),
            "outcome": receipt.outcome,
            "claimed": {
                "agent": msgspec.to_builtins(receipt.backend),
                "models": (more.get("claimed") or {}).get("models"),
            },
        },
        "resolvedDependencies": [*([source] if source else []), *_dependencies(more)],
    }
    details = {
        "builder": {"id": BUILDER, "version": {"treadle": str(more.get("host", "")).removeprefix("treadle ")}},
        "metadata": {"invocationId": meta.run_id, "startedOn": meta.started_at, "finishedOn": meta.finished_at},
        "byproducts": [{"name": f"receipt/{meta.run_id}", "digest": {"sha256": receipt.receipt_sha256}}],
    }
    predicate = {"buildDefinition": definition, "runDetails": details}
    return {"_type": STATEMENT, "subject": subjects, "predicateType": PROVENANCE, "predicate": predicate}


def summary(receipt: Receipt) -> dict[str, Any]:
    """SLSA verification summary of the check that ran on the result. Raises ValueError where none did."""
    more = ours(receipt)
    check, place = (more.get("observed") or {}).get("check"), more.get("workspace") or {}
    if not check or not place.get("result_tree"):
        raise ValueError("no check ran on the run's result")
    tree, source = place["result_tree"], _source(place) or {}
    predicate = {
        "verifier": {"id": BUILDER, "version": {"treadle": str(more.get("host", "")).removeprefix("treadle ")}},
        "timeVerified": receipt.meta.finished_at,
        "resourceUri": source.get("uri", f"urn:treadle:tree:{tree}"),
        "policy": {"uri": "urn:treadle:check:1", "digest": {"sha256": _hash(check["command"])}},
        "inputAttestations": [{"digest": {"sha256": receipt.receipt_sha256}}],
        "verificationResult": "PASSED" if check.get("ok") and receipt.outcome == "complete" else "FAILED",
        "verifiedLevels": ["SLSA_BUILD_LEVEL_UNEVALUATED"],
        "slsaVersion": "1.0",
    }
    return {"_type": STATEMENT, "subject": [*_subjects(receipt)], "predicateType": SUMMARY, "predicate": predicate}


STATEMENTS = {"provenance": provenance, "receipt": statement, "summary": summary}


def statements(receipt: Receipt) -> dict[str, dict[str, Any]]:
    """All that there are of a receipt, by name."""
    made = {}
    for name, make in STATEMENTS.items():
        try:
            made[name] = make(receipt)
        except ValueError:
            continue
    return made


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _subjects(receipt: Receipt) -> Iterator[dict[str, Any]]:
    more = ours(receipt)
    place = more.get("workspace") or {}
    if place.get("result_commit"):
        yield {"name": "commit", "digest": {"gitCommit": place["result_commit"]}}
    if place.get("result_tree"):
        yield {"name": "tree", "digest": {"gitTree": place["result_tree"]}}
    for one in more.get("artifacts") or []:
        if one.get("sha256") and one.get("kept") == one["path"]:  # not a copy of what the agent names
            yield {"name": "patch.diff", "digest": {"sha256": one["sha256"]}}


def _source(place: dict[str, Any]) -> dict[str, Any] | None:
    digest = {"gitCommit": place.get("base_commit"), "gitTree": place.get("base_tree")}
    digest = {name: value for name, value in digest.items() if value}
    if not digest:
        return None
    head = place.get("head_commit")
    ours = None not in (head, place.get("base_commit")) and head != place["base_commit"]
    url = None if ours else place.get("repository")  # which has no commit of ours
    return {"name": "source", **({"uri": f"git+{url}"} if url else {}), "digest": digest}


def _dependencies(more: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What we started, and the models that a client of ours asked."""
    if agent := (more.get("order") or {}).get("agent"):
        yield {"name": "agent", "uri": f"urn:treadle:agent:{_plain(agent)}"}
    for model in (more.get("observed") or {}).get("models") or []:
        yield {"name": "model", "uri": f"urn:treadle:model:{_plain(model)}"}


def _plain(text: str) -> str:
    return re.sub(r"[^\w.:@/-]", "_", text)


def repository_url(url: str) -> str | None:
    """The address of a repository as strangers may read it: without a user's name and password. None for a path."""
    if match := _SCP.fullmatch(url):
        return f"ssh://{match[1]}/{match[2].lstrip('/')}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("https", "http", "ssh", "git") or not host or parts.query:  # it may name a repository
        return None
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}"


def same_repository(one: str, other: str) -> bool:
    """Whether two addresses name the same repository, however it is reached."""
    return _place(one) == _place(other)


def _place(url: str) -> str:
    plain = repository_url(url.removeprefix("git+")) or url
    return re.sub(r"^\w+://", "", plain).removesuffix("/").removesuffix(".git").lower()


# Envelopes...


def envelope(made: dict[str, Any], sign: Callable[[bytes], str] | None = None, public_key: str = "") -> dict[str, Any]:
    """A statement, signed, or without a signature. `sign` returns base64; the key's id is the SHA-256 of its public
    half."""
    payload = msgspec.json.encode(made, order="sorted")
    signed = [{"keyid": key_id(public_key), "sig": sign(encoded(PAYLOAD, payload))}] if sign is not None else []
    return {"payloadType": PAYLOAD, "payload": base64.b64encode(payload).decode(), "signatures": signed}


class _RunMetadata(TypedDict, total=False):
    invocationId: str | None
    finishedOn: str | None
    finished_at: str | None


class _RunDetails(TypedDict, total=False):
    metadata: _RunMetadata | None


class _Predicate(TypedDict, total=False):
    runDetails: _RunDetails | None
    meta: _RunMetadata | None


class _Statement(TypedDict, total=False):
    """The form of a statement, as far as it is read here whatever it is about."""

    _type: Required[str]
    subject: Required[list[dict[str, Any]]]
    predicateType: Required[str]
    predicate: Required[_Predicate]


def unwrapped(found: Any) -> tuple[dict[str, Any], bytes, list[tuple[str, str]]]:
    """The statement in an envelope, the bytes that were signed, and the signatures with the ids of their keys.

    Raises ValueError or MsgspecError when it is not an envelope with a statement.
    """
    if isinstance(found, dict) and isinstance(found.get("dsseEnvelope"), dict) and "payload" not in found:
        found = found["dsseEnvelope"]  # a bundle of Sigstore
    if not isinstance(found, dict) or found.get("payloadType") != PAYLOAD:
        raise ValueError(f"it is not an envelope with a payload of the type {PAYLOAD}")
    payload = base64.b64decode(str(found.get("payload")), validate=True)
    made = msgspec.json.decode(payload)
    try:
        stated = msgspec.convert(made, _Statement)["_type"]
    except msgspec.ValidationError as error:
        raise ValueError(f"it contains no in-toto statement of version 1: {error}") from error
    if stated != STATEMENT:
        raise ValueError(f"it contains no in-toto statement of version 1, but a {stated!r}")
    listed = msgspec.convert(found.get("signatures") or [], list[dict[str, Any]])
    signatures = [(str(one.get("keyid")), str(one.get("sig"))) for one in listed]
    return made, encoded(PAYLOAD, payload), signatures


def key_id(public_key: str) -> str:
    return hashlib.sha256(base64.b64decode(public_key)).hexdigest()


def encoded(kind: str, payload: bytes) -> bytes:
    """The bytes that are signed: the pre-authentication encoding of DSSE v1."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
