"""What is read of a stored receipt: what is expected of it, and the statements that standard tools verify."""

import base64
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from treadle.errors import ConfigError
from treadle.policy import patterns
from treadle.redact import MARK
from treadle.wire.sidecar.receipts import Receipt, encode

# A receipt for standard tools: two in-toto statements (v1), each in a DSSE envelope signed with the person's key.
#
# One is SLSA provenance (v1): what was made, from which repository and commit, by which agent and order. The other
# has the whole receipt as its predicate, so that its own hash can be checked from there. The subjects are what a
# verifier may have: the tree and the commit of the result, and the files that were kept of the run. None of them
# names a path of this machine, and the provenance does not either.

STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
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
    """SLSA provenance of what the run made. Raises ValueError when it is not known what that is."""
    subjects = [*_subjects(receipt)]
    if not subjects:
        raise ValueError("the receipt does not say what the run has made")
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
        },
        "resolvedDependencies": [*([source] if source else []), *_dependencies(receipt, order)],
    }
    details = {
        "builder": {"id": BUILDER, "version": {"treadle": str(more.get("host", "")).removeprefix("treadle ")}},
        "metadata": {"invocationId": meta.run_id, "startedOn": meta.started_at, "finishedOn": meta.finished_at},
        "byproducts": [{"name": f"receipt/{meta.run_id}", "digest": {"sha256": receipt.receipt_sha256}}],
    }
    predicate = {"buildDefinition": definition, "runDetails": details}
    return {"_type": STATEMENT, "subject": subjects, "predicateType": PROVENANCE, "predicate": predicate}


def ours(receipt: Receipt) -> dict[str, Any]:
    """Our part of a receipt; empty when it is not one of ours."""
    raw = receipt.usage_raw if isinstance(receipt.usage_raw, dict) else {}
    more = raw.get("treadle")
    return more if isinstance(more, dict) else {}


def _subjects(receipt: Receipt) -> Iterator[dict[str, Any]]:
    more = ours(receipt)
    place = more.get("workspace") or {}
    if place.get("result_commit"):
        yield {"name": "commit", "digest": {"gitCommit": place["result_commit"]}}
    if place.get("result_tree"):
        yield {"name": "tree", "digest": {"gitTree": place["result_tree"]}}
    for one in more.get("artifacts") or []:
        if one.get("sha256"):
            name = os.path.basename(one["path"]) if os.path.isabs(one["path"]) else one["path"]
            yield {"name": name, "digest": {"sha256": one["sha256"]}}


def _source(place: dict[str, Any]) -> dict[str, Any] | None:
    digest = {"gitCommit": place.get("base_commit"), "gitTree": place.get("base_tree")}
    digest = {name: value for name, value in digest.items() if value}
    if not digest:
        return None
    url = place.get("repository")
    return {"name": "source", **({"uri": f"git+{url}"} if url else {}), "digest": digest}


def _dependencies(receipt: Receipt, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    backend = receipt.backend
    version = {"version": backend.backend_version} if backend.backend_version else {}
    adapter = {"adapter_version": backend.adapter_version} if backend.adapter_version else {}
    yield {"name": "agent", "uri": f"urn:treadle:agent:{_plain(backend.id)}", "annotations": {**version, **adapter}}
    if order.get("model"):
        yield {"name": "model", "uri": f"urn:treadle:model:{_plain(order['model'])}"}


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
    if parts.scheme not in ("https", "http", "ssh", "git") or not host:
        return None
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}"


def same_repository(one: str, other: str) -> bool:
    """Whether two addresses name the same repository, however it is reached."""
    return _place(one) == _place(other)


def _place(url: str) -> str:
    plain = repository_url(url.removeprefix("git+")) or url
    return re.sub(r"^\w+://", "", plain).removesuffix("/").removesuffix(".git").lower()


# Envelopes...


def envelope(made: dict[str, Any], sign: Callable[[bytes], str], public_key: str) -> dict[str, Any]:
    """A statement, signed. `sign` returns base64; the key's id is the SHA-256 of its public half."""
    payload = msgspec.json.encode(made, order="sorted")
    return {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id(public_key), "sig": sign(encoded(PAYLOAD, payload))}],
    }


def unwrapped(found: Any) -> tuple[dict[str, Any], bytes, list[tuple[str, str]]]:
    """The statement in an envelope, the bytes that were signed, and the signatures with the ids of their keys.

    Raises ValueError when it is no envelope with a statement.
    """
    if isinstance(found, dict) and isinstance(found.get("dsseEnvelope"), dict):
        found = found["dsseEnvelope"]  # a bundle of Sigstore
    if not isinstance(found, dict) or found.get("payloadType") != PAYLOAD:
        raise ValueError(f"it is no envelope with a payload of the type {PAYLOAD}")
    payload = base64.b64decode(str(found.get("payload")), validate=True)
    made = msgspec.json.decode(payload)
    if not isinstance(made, dict) or made.get("_type") != STATEMENT or not isinstance(made.get("subject"), list):
        raise ValueError("it holds no in-toto statement of version 1")
    listed = found.get("signatures") or []
    signatures = [(str(one.get("keyid")), str(one.get("sig"))) for one in listed if isinstance(one, dict)]
    return made, encoded(PAYLOAD, payload), signatures


def key_id(public_key: str) -> str:
    return hashlib.sha256(base64.b64decode(public_key)).hexdigest()


def encoded(kind: str, payload: bytes) -> bytes:
    """The bytes that are signed: the pre-authentication encoding of DSSE v1."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


# A gate: what someone expects of a receipt, compared with what it states. Each thing that can be wrong has a name.

INVALID, UNSIGNED = 1, 10
EXIT_CODES = {
    "repo": 11,
    "base": 12,
    "agent": 13,
    "model": 14,
    "outcome": 15,
    "confined": 16,
    "sealed": 16,
    "network": 16,
    "policy": 17,
    "enforced": 17,
    "verified": 18,
    "differences": 19,
    "tree": 20,
    "commit": 20,
    "unchanged": 21,
}
"""By what is expected. Of several reasons, the first of this list decides."""
_SHORTEST = 7
_RANK = ("observed", "guard", "kernel")


def facts(receipt: Receipt) -> dict[str, str]:
    """What a receipt states about each thing that can be expected; what it does not state is not there."""
    more = ours(receipt)
    place, policy = more.get("workspace") or {}, more.get("policy") or {}
    check = (more.get("observed") or {}).get("check")
    walls = more.get("confinement")
    found: dict[str, Any] = {
        "repo": place.get("repository"),
        "base": place.get("base_commit") or place.get("base_tree"),
        "agent": receipt.backend.id,
        "model": (more.get("order") or {}).get("model"),
        "outcome": receipt.outcome,
        "verified": "yes" if check and check.get("ok") else "no",
        "tree": place.get("result_tree"),
        "commit": place.get("result_commit"),
    }
    if "confinement" in more:
        found["confined"] = walls["method"] if walls else "no"
        reach = walls["network"] if walls else "on"
        found["network"] = ",".join(walls["hosts"]) or reach if walls and reach == "off" else reach
        found["sealed"] = "yes" if place.get("sealed") else "no"
    if "differences" in more:
        found["differences"] = str(len(more["differences"])) if more["differences"] else "none"
    if isinstance(policy.get("rules"), dict):
        found["policy"] = policy_digest(policy["rules"])
        found["enforced"] = policy.get("enforced") or "not applied"
    found["changed"] = _changed(more.get("observed") or {})
    return {name: str(value) for name, value in found.items() if value is not None}


def _changed(seen: dict[str, Any]) -> str | None:
    """The paths that changed, as JSON, ignored ones too; None when the receipt does not name them all."""
    files, hidden = seen.get("files"), seen.get("hidden")
    if files is None or hidden is None or seen.get("hidden_left_out"):
        return None
    paths = [path for one in files for path in (one["path"], one.get("old_path")) if path]
    return msgspec.json.encode([*paths, *hidden]).decode()


def policy_digest(rules: Mapping[str, Any]) -> str:
    """The hash of a policy: its lists that are not empty, as JSON with sorted names and without spaces."""
    plain = {name: value for name, value in rules.items() if value}
    return f"sha256:{hashlib.sha256(msgspec.json.encode(plain, order='sorted')).hexdigest()}" if plain else "none"


def parse(texts: tuple[str, ...]) -> dict[str, str]:
    """`repo=...,confined=yes`, several times. Raises ConfigError for what no one can expect."""
    found = {}
    for text in (part for whole in texts for part in whole.split(",") if part):
        name, given, value = text.partition("=")
        if not given:
            raise ConfigError(f"--expect {text}: not NAME=VALUE", hint=f"names: {', '.join(EXIT_CODES)}")
        found[name.strip()] = value.strip()
    return known(found)


def known(expected: dict[str, str]) -> dict[str, str]:
    for name in expected:
        if name not in EXIT_CODES:
            raise ConfigError(f"nothing called {name!r} can be expected", hint=f"names: {', '.join(EXIT_CODES)}")
    return {name: expected[name] for name in EXIT_CODES if name in expected}


def unmet(name: str, wanted: str, stated: Mapping[str, str]) -> str | None:
    """Why the expectation is not met, in words; None if it is. What is not stated meets nothing."""
    found = stated.get("changed" if name == "unchanged" else name)
    if found is None:
        return f"{name}: {wanted} is expected, and the receipt does not say"
    if name == "unchanged":
        touched = _touched(wanted, found)
        return f"{name}: {wanted} is expected, and {touched} changed" if touched is not None else None
    if _met(name, wanted, found):
        return None
    return f"{name}: {wanted} is expected, and it is {found}"


def _met(name: str, wanted: str, found: str) -> bool:
    compare: dict[str, Callable[[], bool]] = {
        "repo": lambda: same_repository(wanted, found),
        "base": lambda: _same_id(wanted, found),
        "tree": lambda: _same_id(wanted, found),
        "commit": lambda: _same_id(wanted, found),
        "confined": lambda: found == wanted or (wanted == "yes" and found != "no"),
        "enforced": lambda: wanted in _RANK and found in _RANK and _RANK.index(found) >= _RANK.index(wanted),
    }
    return compare.get(name, lambda: found in wanted.split("|"))()


def _touched(wanted: str, changed: str) -> str | None:
    """The first changed path that one of the patterns covers, or that is in a directory that it covers, or whose name
    the receipt does not show."""
    given = [one.strip("/") for one in wanted.split("|")]
    named = [f"/{one}" if "/" in one else f"/**/{one}" for one in given]
    named += [f"{one}/**" for one in named]
    for path in msgspec.json.decode(changed, type=list[str]):
        if MARK in path or any(patterns.match(one, f"/{path}") for one in named):
            return path
    return None


def _same_id(wanted: str, found: str) -> bool:
    return len(wanted) >= _SHORTEST and found.startswith(wanted.lower())
