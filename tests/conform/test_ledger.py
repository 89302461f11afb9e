"""The clauses for a ledger: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform import inside as programs
from tests.conform.conftest import broken, candidate, clauses, ruling, sections
from tests.conform.inside import inside

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
    (
        "a version with a letter",
        {"where": {"result": {"serverInfo": "*"}}, "set": {"result.serverInfo.version": "1.x.0"}},
        "calls itself",
    ),
    (
        "a tool requires less",
        {"where": {"result": {"tools": "*"}}, "set": {"result.tools.1.inputSchema": {}}},
        "the six tools are there",
    ),
    (
        "a text that is no JSON",
        {"where": {"result": {"structuredContent": "*"}}, "set": {"result.content.1.text": "x"}},
        "mirrored by structuredContent",
    ),
    (
        "no text",
        {"where": {"result": {"structuredContent": "*"}}, "set": {"result.content": []}},
        "mirrored by structuredContent",
    ),
    (
        "one name for all",
        {"where": {"result": {"structuredContent": "*"}}, "set": {"result.structuredContent.haid": "x/cursor"}},
        "every result names",
    ),
    (
        "a good result that is called an error",
        {"where": {"result": {"structuredContent": "*"}}, "set": {"result.isError": True}},
        "what was claimed is read back",
    ),
    (
        "another claim is read back",
        {"where": {"result": {"structuredContent": "*"}}, "set": {"result.structuredContent.claims": []}},
        "what was claimed is read back",
    ),
    (
        "what was refused is there",
        {"where": {"result": {"structuredContent": "*"}}, "set": {"result.structuredContent.count": 2}},
        "overlaps another client's",
    ),
    ("framed requests have no result", {"where": {"id": 1}, "set": {"result": None}}, "framed by Content-Length"),
    ("framed requests have another id", {"where": {"id": 1}, "set": {"id": 2}}, "framed by Content-Length"),
    *(
        (
            f"{tool} does nothing",
            {"give": {"where": {"params": {"name": tool}}, "set": {"params.name": "read_claims"}}},
            words,
        )
        for tool, words in (
            ("release_claim", "what was released can be claimed"),
            ("append_decision", "append_decision adds to decisions.md"),
            ("raise_conflict_pr", "raise_conflict_pr writes a record"),
        )
    ),
    *(
        (
            f"a decision {what}",
            {"give": {"where": where, "set": {path: "x"}}},
            "append_decision adds to decisions.md",
        )
        for what, where, path in (
            ("has another name", {"method": "initialize"}, "params.clientInfo.name"),
            ("is lost", {"params": {"arguments": {"title": "One parser"}}}, "params.arguments.title"),
            ("comes too early", {"params": {"arguments": {"title": "Two parsers"}}}, "params.arguments.title"),
        )
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
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str) -> None:
    assert await broken("ledger", words, inside(programs.ledger, spoil))


@pytest.mark.parametrize("sentence", [one for one in clauses("ledger") if one not in clauses("mcp")])
async def test_a_right_program_of_another_keeps(sentence: str) -> None:
    found = await ruling("ledger", sentence, inside(programs.ledger))
    assert found.outcome == "kept", found.seen


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("ledger") == {
        "Lifecycle",
        "Tools",
        "JSON-RPC",
        "Tool contract",
        "Claims",
        "Decisions, conflicts and capsules",
    }
