"""The clauses for a ledger: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform.conftest import broken, candidate, clauses, ruling, sections

FAULTS: list[tuple[str, dict[str, Any], str]] = [
    (
        "another name",
        {"where": {"result": {"serverInfo": "*"}}, "set": {"result.serverInfo.name": "other"}},
        "calls itself",
    ),
    (
        "a version of two numbers",
        {"where": {"result": {"serverInfo": "*"}}, "set": {"result.serverInfo.version": "1.0"}},
        "calls itself",
    ),
    (
        "a tool is missing",
        {"where": {"result": {"tools": "*"}}, "set": {"result.tools": []}},
        "the six tools are there",
    ),
    (
        "the mirror differs",
        {"where": {"result": {"structuredContent": "*"}}, "set": {"result.structuredContent.x": 1}},
        "mirrored by structuredContent",
    ),
    (
        "no mirror",
        {"where": {"result": {"structuredContent": "*"}}, "set": {"result.structuredContent": None}},
        "every result names",
    ),
    (
        "no name of the one who acted",
        {"where": {"result": {"structuredContent": "*"}}, "set": {"result.structuredContent.haid": "x"}},
        "every result names",
    ),
    ("claims are lost", {"ignore": {"params": {"name": "make_claim"}}}, "what was claimed is read back"),
    (
        "nothing is counted",
        {"where": {"result": {"structuredContent": {"count": "*"}}}, "set": {"result.structuredContent.count": 0}},
        "what was claimed is read back",
    ),
    (
        "overlaps are allowed",
        {"where": {"result": {"isError": True}}, "set": {"result.isError": False}},
        "overlaps another client's",
    ),
    (
        "a claim of nothing is allowed",
        {"where": {"result": {"isError": True}}, "set": {"result.isError": False}},
        "a claim of nothing",
    ),
    (
        "capsules from nowhere",
        {
            "where": {"result": {"structuredContent": {"capsules": "*"}}},
            "set": {"result.structuredContent.capsules": [1]},
        },
        "read_capsules of an empty",
    ),
]


@pytest.mark.parametrize("sentence", [one for one in clauses("ledger") if one not in clauses("mcp")])
async def test_our_own_keeps(sentence: str, tmp_path: Path) -> None:
    found = await ruling("ledger", sentence, candidate("ledger", tmp_path))
    assert found.outcome == "kept", found.seen


@pytest.mark.parametrize(("fault", "spoil", "words"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str, tmp_path: Path) -> None:
    patience = 10.0 if "ignore" in spoil else 60.0
    assert await broken("ledger", words, candidate("ledger", tmp_path, spoil, patience))


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("ledger") == {
        "Lifecycle",
        "Tools",
        "JSON-RPC",
        "Tool contract",
        "Claims",
        "Decisions, conflicts and capsules",
    }
