"""What a client knows of a tool before it calls it, and that the results are as it says."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.coordination.clients import call, modern
from treadle.coordination.capsules import Capsules
from treadle.coordination.ledger import Symbols
from treadle.coordination.mcp import SIX
from treadle.coordination.planning import Planning


@pytest.fixture
def planning(project: Path) -> Planning:
    return Planning(project=str(project))


@pytest.mark.parametrize(
    ("revision", "more"),
    [
        ("2024-11-05", set()),
        ("2025-03-26", {"annotations"}),
        ("2025-06-18", {"annotations", "title", "outputSchema"}),
        ("2025-11-25", {"annotations", "title", "outputSchema"}),
    ],
)
def test_titles_annotations_and_output_schemas_are_for_those_whose_revision_has_them(
    connect: Any, revision: str, more: set[str]
) -> None:
    listed = modern(connect, revision, extended=True).handle("tools/list", {})["tools"]
    assert all(set(tool) == {"name", "description", "inputSchema"} | more for tool in listed)
    if "annotations" in more:
        reading = {tool["name"] for tool in listed if tool["annotations"]["readOnlyHint"]}
        assert reading == {"read_claims", "read_capsules", "get_fact", "resolve", "hydrate", "brief"}
        assert {tool["name"] for tool in listed if tool["annotations"].get("destructiveHint")} == {
            "release_claim",
            "set_fact",
        }


def test_results_are_as_their_output_schemas_say(connect: Any) -> None:
    server = modern(connect, extended=True)
    schemas = {tool["name"]: tool["outputSchema"] for tool in server.handle("tools/list", {})["tools"]}
    message = {"type": "question", "from": "a", "msg_id": "m1", "question": "why?"}
    Symbols(server.planning).set("F1", "src/a")
    Capsules(server.planning).write("w1", "done")
    calls: dict[str, dict[str, Any]] = {
        "make_claim": {"surfaces": ["src/a/**"], "task": "T"},
        "read_claims": {},
        "heartbeat": {},
        "release_claim": {},
        "append_decision": {"title": "t", "body": "b"},
        "raise_conflict_pr": {"id": "c1", "title": "t", "surfaces": ["src"]},
        "read_capsules": {},
        "post_message": {"message": message},
        "read_messages": {},
        "set_fact": {"key": "port", "value": "1"},
        "get_fact": {"key": "port"},
        "resolve": {"id": "F1"},
        "hydrate": {"ids": ["w1"]},
        "brief": {"task": "T", "spec": "s"},
    }
    assert calls.keys() == schemas.keys()
    for name, arguments in calls.items():
        jsonschema.validate(call(server, name, **arguments), schemas[name])


def test_the_six_cost_less_than_three_kilobytes_in_every_request() -> None:
    shown = [{"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in SIX]
    assert len(json.dumps(shown)) < 3000
