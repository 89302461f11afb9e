"""A gate: what someone expects of a receipt, compared with what it states. Each thing that can be wrong has a name."""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

import msgspec

from treadle.errors import ConfigError
from treadle.policy import patterns
from treadle.receipts.statement import same_repository
from treadle.receipts.trace import ours
from treadle.redact import MARK, Redactor
from treadle.verification.evidence import Word, reaches
from treadle.wire.sidecar.receipts import Receipt
from treadle.workspace.directories import MISSING

INVALID, UNSIGNED = 1, 10
EXIT_CODES = {
    "repo": 11,
    "base": 12,
    "agent": 13,
    "model": 14,
    "claimed.agent": 13,
    "claimed.model": 14,
    "outcome": 15,
    "confined": 16,
    "sealed": 16,
    "network": 16,
    "policy": 17,
    "enforced": 17,
    "verified": 18,
    "check": 18,
    "setup": 18,
    "directory": 18,
    "may_change": 18,
    "evidence": 18,
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
    seen, claim = more.get("observed") or {}, more.get("claimed") or {}
    check, walls = seen.get("check"), more.get("confinement")
    shown = (check or {}).get("evidence") or {}
    found: dict[str, Any] = {
        "repo": place.get("repository"),
        "base": place.get("base_commit") or place.get("base_tree"),
        "agent": (more.get("order") or {}).get("agent"),
        "model": "|".join(seen.get("models") or []) or None,
        "claimed.agent": receipt.backend.id,
        "claimed.model": "|".join(claim.get("models") or []) or None,
        "outcome": receipt.outcome,
        "verified": "yes" if check and check.get("ok") else "no",
        "check": check["command"].strip() if check else None,
        "setup": check["setup"].strip() or "none" if check and "setup" in check else None,
        "directory": place.get("directory") or "." if place else None,
        "may_change": "|".join(shown.get("allowed") or []) or "none" if shown else None,
        "evidence": shown.get("word"),
        "finished": receipt.meta.finished_at,
        "tree": place.get("result_tree"),
        "commit": place.get("result_commit"),
    }
    signer = (more.get("signature") or {}).get("run") or {}
    if signer.get("key_in_reach"):
        found["key"] = "in reach"
        walls = None  # who can read the key can sign whatever they want, also that they were confined
    if "confinement" in more:
        found["confined"] = walls["method"] if walls else "no"
        reach = walls["network"] if walls else "on"
        found["network"] = ",".join(walls.get("hosts") or []) or reach if walls and reach == "off" else reach
        found["sealed"] = "yes" if place.get("sealed") and walls else "no"
    if "differences" in more:
        found["differences"] = str(len(more["differences"])) if more["differences"] else "none"
    if isinstance(policy.get("rules"), dict):
        found["policy"] = policy_digest(policy["rules"])
        found["enforced"] = policy.get("enforced") or "not applied"
    found["changed"] = _changed(seen, place)
    return {name: str(value) for name, value in found.items() if value is not None}


def _changed(seen: dict[str, Any], place: dict[str, Any]) -> str | None:
    """The paths that changed since the order's base, as JSON, ignored ones too; None when the receipt does not name
    them all, or when there was something that was not looked at."""
    files, hidden = seen.get("files"), seen.get("hidden")
    unseen = any(one.get("kind") in MISSING for one in seen.get("oddities") or [])
    if files is None or hidden is None or seen.get("hidden_left_out") or seen.get("oddities_left_out") or unseen:
        return None
    if place.get("start_tree", place.get("base_tree")) != place.get("base_tree"):
        return None  # an earlier attempt has changed something, too
    paths = [path for one in files for path in (one["path"], one.get("old_path")) if path]
    return msgspec.json.encode([*paths, *hidden]).decode()


def policy_digest(rules: Mapping[str, Any]) -> str:
    """The hash of a policy: its lists that are not empty, as JSON with sorted names and without spaces."""
    plain = {name: value for name, value in rules.items() if value}
    return f"sha256:{hashlib.sha256(msgspec.json.encode(plain, order='sorted')).hexdigest()}" if plain else "none"


def parse(texts: tuple[str, ...]) -> dict[str, str]:
    """`repo=...,confined=yes`, several times. Raises ConfigError for what no one can expect."""
    found: dict[str, str] = {}
    for text in (part for whole in texts for part in whole.split(",")):
        name, given, value = text.partition("=")
        if not given:
            raise ConfigError(f"--expect {text}: not NAME=VALUE", hint=f"names: {', '.join(EXIT_CODES)}")
        if found.setdefault(name, value) != value:
            raise ConfigError(f"--expect {name} is given twice, with different values")
    return known(found)


def known(expected: dict[str, str]) -> dict[str, str]:
    for name in expected:
        if name not in EXIT_CODES:
            raise ConfigError(f"there is no expectation called {name!r}", hint=f"names: {', '.join(EXIT_CODES)}")
        _check_words(name, expected[name])
    return {name: expected[name] for name in EXIT_CODES if name in expected}


_YES = frozenset(("yes", "no"))
_WORDS: dict[str, frozenset[str]] = {
    "outcome": frozenset(("complete", "partial", "failed")),
    "confined": _YES | {"bubblewrap", "landlock"},
    "sealed": _YES,
    "verified": _YES,
    "enforced": frozenset(_RANK),
    "evidence": frozenset(get_args(Word)),
}
_FORMS = {
    **dict.fromkeys(("base", "tree", "commit"), rf"[0-9a-fA-F]{{{_SHORTEST},64}}"),
    "policy": r"none|sha256:[0-9a-f]{64}",
    "differences": r"none|[1-9]\d*",
}


def _check_words(name: str, value: str) -> None:
    """Raises ConfigError for what no receipt can state, which would be met by none or, worse, looked for in vain."""
    for word in [value] if name in ("check", "setup") else value.split("|"):
        if not word or word != word.strip():
            raise ConfigError(f"{name}: {value!r} has an empty word, or a space around a word")
        if name in ("check", "setup") and Redactor().text(word) != word:
            hint = "put the command into a file of the project, and name that"
            raise ConfigError(f"{name}: {word!r} contains what looks like a secret, and receipts hide it", hint=hint)
        if name in _WORDS and word not in _WORDS[name]:
            raise ConfigError(f"{name} cannot be {word!r}", hint=f"it is one of {', '.join(sorted(_WORDS[name]))}")
        if name in _FORMS and not re.fullmatch(_FORMS[name], word):
            raise ConfigError(f"{name} cannot be {word!r}", hint=f"it has the form {_FORMS[name]}")
        if name == "unchanged":
            if not patterns.parse(word).paths:
                raise ConfigError(f"{name}: {word!r} can match no file")


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
        "check": lambda: found == wanted,
        "setup": lambda: found == wanted,
        "evidence": lambda: any(found == one or reaches(found, one) for one in wanted.split("|")),
        "confined": lambda: found == wanted or (wanted == "yes" and found != "no"),
        "enforced": lambda: wanted in _RANK and found in _RANK and _RANK.index(found) >= _RANK.index(wanted),
    }
    if name.endswith("model"):  # each of those that were used
        return set(found.split("|")) <= set(wanted.split("|"))
    return compare.get(name, lambda: found in wanted.split("|"))()


def _touched(wanted: str, changed: str) -> str | None:
    """The first changed path that one of the patterns covers, or that is in a directory that it covers, or whose name
    the receipt does not show."""
    named = [pattern for one in wanted.split("|") for pattern in covering(one)]
    for path in msgspec.json.decode(changed, type=list[str]):
        if MARK in path or any(patterns.match(one, f"/{path}") for one in named):
            return path
    return None


def covering(given: str) -> list[str]:
    """The patterns of whole paths for one that people write: what it names, and all below that."""
    given = given.strip("/")
    named = f"/{given}" if "/" in given else f"/**/{given}"
    return [named, f"{named}/**"]


def _same_id(wanted: str, found: str) -> bool:
    return len(wanted) >= _SHORTEST and found.startswith(wanted.lower())
