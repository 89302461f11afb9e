"""A gate compares what is expected with what a receipt states."""

import hashlib
from typing import Any

import pytest
from msgspec.structs import replace

from tests.wire.conversations.sidecar import SAMPLE_RECEIPT
from treadle.errors import ConfigError
from treadle.receipts import expecting
from treadle.wire.sidecar.receipts import Receipt

BASE, TREE = "b" * 40, "c" * 40
RULES = {"deny_read": [".env"], "deny_write": []}
WALLS = {"method": "bubblewrap", "covers": "agent", "network": "off", "hosts": []}
TESTED = {"command": "make", "base": BASE, "tree": TREE, "word": "tested", "why": "so"}


SEEN = {
    "models": ["m"],
    "check": {"ok": True, "exit_code": 0, "command": "make a || make b", "setup": "", "evidence": TESTED},
    "files": [
        {"kind": "modified", "path": "src/a.py"},
        {"kind": "renamed", "path": "b/new.py", "old_path": "tests/old.py"},
    ],
    "hidden": ["build/out"],
}


def stated(**changes: Any) -> Receipt:
    more = {
        "workspace": {
            "repository": "https://example.com/a/b",
            "base_commit": BASE,
            "result_tree": TREE,
            "sealed": True,
        },
        "order": {"model": "asked", "agent": "native"},
        "claimed": {"models": ["k", "l"]},
        "policy": {"rules": RULES, "enforced": "guard"},
        "observed": SEEN,
        "confinement": WALLS,
        "differences": [],
        **changes,
    }
    return replace(SAMPLE_RECEIPT, usage_raw={"treadle": more})


MET = {
    "repo": "git@example.com:a/b.git",
    "base": BASE[:10],
    "agent": "native",
    "model": "m",
    "claimed.agent": SAMPLE_RECEIPT.backend.id,
    "claimed.model": "k|l|m",
    "outcome": "complete|partial",
    "confined": "yes",
    "sealed": "yes",
    "network": "off",
    "policy": "sha256:" + hashlib.sha256(b'{"deny_read":[".env"]}').hexdigest(),
    "enforced": "observed",
    "verified": "yes",
    "check": "make a || make b",
    "setup": "none",
    "directory": ".",
    "may_change": "none",
    "evidence": "passed|tested",
    "differences": "none",
    "tree": TREE,
    "unchanged": "tests/new/**|Makefile",
}
UNMET = {
    "repo": "example.com/a/c",
    "base": "bbb",
    "agent": SAMPLE_RECEIPT.backend.id,
    "model": "asked",
    "claimed.agent": "native",
    "claimed.model": "k",
    "outcome": "failed",
    "confined": "landlock",
    "sealed": "no",
    "network": "on",
    "policy": "none",
    "enforced": "kernel",
    "verified": "no",
    "check": "make a",
    "setup": "npm ci",
    "directory": "docs",
    "may_change": "tests/**",
    "evidence": "proven",
    "differences": "1",
    "tree": BASE,
    "unchanged": "Makefile|tests/**",
}


def test_each_expectation_is_met_or_has_a_reason_and_a_code() -> None:
    facts = expecting.facts(stated())
    assert MET.keys() == UNMET.keys() == expecting.EXIT_CODES.keys() - {"commit"}
    for name in MET:
        assert expecting.unmet(name, MET[name], facts) is None, name
        assert f"{name}: {UNMET[name]} is expected" in (expecting.unmet(name, UNMET[name], facts) or "")


def test_what_is_not_stated_meets_nothing() -> None:
    facts = expecting.facts(replace(SAMPLE_RECEIPT, usage_raw=None))
    assert facts.keys() == {"claimed.agent", "outcome", "verified", "finished"}
    for name in ("confined", "differences", "policy", "commit", "repo"):
        assert "does not say" in (expecting.unmet(name, "none", facts) or "")


def test_in_a_sandbox_that_the_key_is_in_reach_of_nothing_is_confined() -> None:
    facts = expecting.facts(stated(signature={"run": {"key_in_reach": True}}))
    assert [facts[name] for name in ("key", "confined", "sealed", "network")] == ["in reach", "no", "no", "on"]


def test_without_a_sandbox_it_is_not_confined_and_differences_are_counted() -> None:
    facts = expecting.facts(stated(confinement=None, differences=["a", "b"], observed={}))
    assert (facts["confined"], facts["network"], facts["differences"], facts["verified"]) == ("no", "on", "2", "no")
    assert expecting.unmet("confined", "yes", facts) and not expecting.unmet("confined", "no", facts)
    limited = expecting.facts(stated(confinement={**WALLS, "hosts": ["a.org", "b.org"]}))
    assert limited["network"] == "a.org,b.org"

    assert expecting.facts(stated(confinement={**WALLS, "network": "on", "hosts": ["a.org"]}))["network"] == "on"
    failed = expecting.facts(
        stated(
            observed={"check": {"command": "x", "exit_code": 1, "ok": False}},
            workspace={"base_tree": TREE},
            policy={"rules": {}},
        )
    )
    assert (failed["verified"], failed["sealed"], failed["base"], failed["policy"]) == ("no", "no", TREE, "none")
    assert failed["enforced"] == "not applied" and "repo" not in failed and "changed" not in failed


@pytest.mark.parametrize(
    ("name", "wanted", "said"),
    [
        ("base", BASE[:7], None),
        ("base", BASE[:6], f"base: bbbbbb is expected, and it is {BASE}"),
        ("tree", TREE.upper(), None),
        ("tree", TREE[:7] + "d", f"tree: cccccccd is expected, and it is {TREE}"),
        ("commit", "d" * 7, None),
        ("commit", "e" * 7, "commit: eeeeeee is expected, and it is " + "d" * 40),
        ("confined", "bubblewrap", None),
        ("confined", "no", "confined: no is expected, and it is bubblewrap"),
        ("enforced", "guard", None),
        ("evidence", "passed", None),
        ("evidence", "weak|proven", "evidence: weak|proven is expected, and it is tested"),
        ("enforced", "anyhow", "enforced: anyhow is expected, and it is guard"),
        ("model", "n", "model: n is expected, and it is m"),
        ("model", "n|m", None),
    ],
)
def test_how_near_is_near_enough(name: str, wanted: str, said: str | None) -> None:
    place = {"base_commit": BASE, "base_tree": "x", "result_tree": TREE, "result_commit": "d" * 40}
    assert expecting.unmet(name, wanted, expecting.facts(stated(workspace=place))) == said
    unknown = expecting.facts(stated(policy={"rules": RULES, "enforced": "somehow"}))
    assert expecting.unmet("enforced", "observed", unknown)


def test_expectations_are_read_in_one_order_and_what_nobody_can_expect_is_refused() -> None:
    assert list(expecting.parse(("verified=yes,repo=x", f"base={BASE}"))) == ["repo", "base", "verified"]
    assert expecting.parse(("verified=yes,model=a=b", "verified=yes")) == {"verified": "yes", "model": "a=b"}
    for wrong, said in (
        ("colour=red", "there is no expectation called 'colour'"),
        ("verified", "--expect verified: not NAME="),
    ):
        with pytest.raises(ConfigError, match=f"{said}.*names: repo, base, agent"):
            expecting.parse((wrong,))


@pytest.mark.parametrize(
    ("wanted", "touched"),
    [
        ("/src/", "src/a.py"),
        ("a/src", None),
        ("tests", "tests/old.py"),
        ("*.py", "src/a.py"),
        ("build/**", "build/out"),
        ("test/**", None),
        ("a.pyc", None),
    ],
)
def test_what_must_stay_is_compared_with_old_names_and_ignored_files_too(wanted: str, touched: str | None) -> None:
    found = expecting.unmet("unchanged", wanted, expecting.facts(stated()))
    assert found == (f"unchanged: {wanted} is expected, and {touched} changed" if touched else None)


@pytest.mark.parametrize(
    "seen",
    [
        *({"files": None}, {"hidden": None}, {"hidden_left_out": 1}, {"files": [{"path": "[redacted]"}]}),
        *({"oddities_left_out": 1}, {"oddities": [{"kind": "unreadable", "path": "a", "note": "x"}]}),
    ],
)
def test_a_receipt_that_does_not_name_all_that_changed_promises_nothing_about_the_rest(seen: dict[str, Any]) -> None:
    assert expecting.unmet("unchanged", "Makefile", expecting.facts(stated(observed={**SEEN, **seen})))


def test_what_an_earlier_attempt_changed_is_not_in_the_receipt_of_the_next() -> None:
    place = {"base_tree": BASE, "start_tree": TREE, "result_tree": TREE}
    assert expecting.unmet("unchanged", "Makefile", expecting.facts(stated(workspace=place)))


@pytest.mark.parametrize(
    "wrong",
    [
        *("outcome=done", "outcome=Complete", "outcome=complete|", "outcome=|", "outcome=", "outcome= complete"),
        *("confined=true", "confined=yes ", "sealed=1", "verified=passed", "enforced=kernal", "evidence=good"),
        *(
            "tree=abc",
            "tree=HEAD",
            "base=main",
            "commit=zzzzzzz",
            "policy=sha256:1",
            "differences=0",
            "differences=few",
        ),
        *(
            "agent=",
            "agent=a||b",
            "model=a| b",
            "unchanged=",
            "unchanged=a|",
            "unchanged=[z-a]",
            "repo= x",
            "check= make",
        ),
        *(
            " verified=yes",
            "verified =yes",
            "",
            ",",
            "verified=yes,,agent=a",
            "agent=a,agent=b",
            "claimed=a",
            "changed=x",
            "check=docker run -e PASSWORD=postgres x",
            "setup=curl https://me:token@example.com",
        ),
    ],
)
def test_what_no_receipt_can_state_is_an_error_and_not_an_expectation(wrong: str) -> None:
    with pytest.raises(ConfigError):
        expecting.parse((wrong,))
