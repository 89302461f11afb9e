"""The clauses for an MCP server: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform.conftest import broken, candidate, clauses, ruling, sections

FAULTS: list[tuple[str, dict[str, Any], str]] = [
    (
        "no version",
        {"where": {"result": {"protocolVersion": "*"}}, "set": {"result.protocolVersion": None}},
        "initialize is answered with a version",
    ),
    (
        "no name",
        {"where": {"result": {"serverInfo": "*"}}, "set": {"result.serverInfo": {}}},
        "initialize is answered with a version",
    ),
    (
        "any version is echoed",
        {"where": {"result": {"protocolVersion": "*"}}, "set": {"result.protocolVersion": "1999-01-01"}},
        "a version that no server has",
    ),
    ("ping says more", {"where": {"result": {}, "id": 2}, "set": {"result": {"ok": True}}}, "ping is answered"),
    (
        "a tool has no name",
        {"where": {"result": {"tools": "*"}}, "set": {"result.tools.0.name": ""}},
        "every tool has a name",
    ),
    (
        "a schema of a list",
        {"where": {"result": {"tools": "*"}}, "set": {"result.tools.0.inputSchema": {"type": "array"}}},
        "every tool has a name",
    ),
    (
        "an argument that is not there is required",
        {
            "where": {"result": {"tools": "*"}},
            "set": {"result.tools.0.inputSchema": {"type": "object", "required": ["x"]}},
        },
        "required arguments are among",
    ),
    (
        "a call of nothing succeeds",
        {"where": {"id": 3}, "raw": '{"jsonrpc":"2.0","id":3,"result":{"content":[]}}\n'},
        "a call of an unknown tool",
    ),
    (
        "a call without arguments succeeds",
        {"where": {"id": 3}, "raw": '{"jsonrpc":"2.0","id":3,"result":{"content":[]}}\n'},
        "a call without a required argument",
    ),
    (
        "a notification is answered",
        {"where": {"id": 2}, "before": '{"jsonrpc":"2.0","id":null,"result":{}}\n'},
        "an unknown notification has no answer",
    ),
]


@pytest.mark.parametrize("sentence", clauses("mcp"))
async def test_our_own_keeps(sentence: str, tmp_path: Path) -> None:
    found = await ruling("mcp", sentence, candidate("mcp", tmp_path))
    assert found.outcome == "kept", found.seen


@pytest.mark.parametrize(("fault", "spoil", "words"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str, tmp_path: Path) -> None:
    patience = 10.0 if "ignore" in spoil else 60.0
    assert await broken("mcp", words, candidate("mcp", tmp_path, spoil, patience))


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("mcp") == {"Lifecycle", "Tools", "JSON-RPC"}
