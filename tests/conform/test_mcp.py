"""The clauses for an MCP server: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform import inside as programs
from tests.conform.conftest import broken, candidate, clauses, kit, ruling, sections
from tests.conform.inside import inside
from treadle.conform.kit import judge

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
        "no capabilities",
        {"where": {"result": {"capabilities": "*"}}, "set": {"result.capabilities": None}},
        "initialize is answered with a version",
    ),
    (
        "no version of its own",
        {"where": {"result": {"serverInfo": "*"}}, "set": {"result.serverInfo.version": None}},
        "initialize is answered with a version",
    ),
    (
        "two tools have one name",
        {"where": {"result": {"tools": "*"}}, "set": {"result.tools.1.name": "list"}},
        "every tool has a name",
    ),
    (
        "a tool without a schema",
        {"where": {"result": {"tools": "*"}}, "set": {"result.tools.0.inputSchema": None}},
        "every tool has a name",
    ),
    ("tools are no list", {"where": {"result": {"tools": "*"}}, "set": {"result.tools": {}}}, "every tool has a name"),
    (
        "an error of another code",
        {"where": {"error": {"code": -32602}}, "set": {"error.code": -32000}},
        "a call of an unknown tool",
    ),
    (
        "an error that says nothing",
        {"where": {"id": 3}, "raw": '{"jsonrpc":"2.0","id":3,"result":{"isError":true,"content":[]}}\n'},
        "a call of an unknown tool",
    ),
    (
        "an error in no list",
        {"where": {"id": 3}, "raw": '{"jsonrpc":"2.0","id":3,"result":{"isError":true,"content":"no"}}\n'},
        "a call without a required argument",
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
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str) -> None:
    assert await broken("mcp", words, inside(programs.mcp, spoil))


@pytest.mark.parametrize("sentence", clauses("mcp"))
async def test_a_right_program_of_another_keeps(sentence: str) -> None:
    found = await ruling("mcp", sentence, inside(programs.mcp))
    assert found.outcome == "kept", found.seen


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("mcp") == {"Lifecycle", "Tools", "JSON-RPC"}


@pytest.mark.parametrize(
    ("spoil", "words", "why"),
    [
        (
            {"where": {"result": {"capabilities": "*"}}, "set": {"result.capabilities": {}}},
            "every tool has a name",
            "the server offers no tools",
        ),
        (
            {"where": {"result": {"protocolVersion": "*"}}, "set": {"result.protocolVersion": "2025-06-18"}},
            "a version that the server has",
            "it has 2025-06-18 only",
        ),
        (
            {"where": {"result": {"tools": "*"}}, "set": {"result.tools.1.inputSchema": {"type": "object"}}},
            "a call without a required argument",
            "no tool requires an argument",
        ),
    ],
)
async def test_what_does_not_apply_is_not_tried(spoil: dict[str, Any], words: str, why: str) -> None:
    (found,) = await judge(kit("mcp"), inside(programs.mcp, spoil), only=words)
    assert (found.outcome, found.seen) == ("untried", why)


async def test_an_error_in_a_result_is_as_good_as_a_refusal() -> None:
    raw = '{"jsonrpc":"2.0","id":3,"result":{"isError":true,"content":[{"type":"text","text":"no"}]}}\n'
    (found,) = await judge(kit("mcp"), inside(programs.mcp, {"where": {"id": 3}, "raw": raw}), only="unknown tool")
    assert (found.outcome, found.seen) == ("kept", '[{"type": "text", "text": "no"}]')
