"""The ledger server's conversation, whatever the transport."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.coordination.clients import call, fails, modern
from tests.coordination.conftest import grow_old
from treadle.coordination import mcp
from treadle.coordination.mcp import Server
from treadle.coordination.planning import Planning
from treadle.wire.common.jsonrpc import Fault

SIX = ["read_claims", "make_claim", "release_claim", "read_capsules", "append_decision", "raise_conflict_pr"]


@pytest.fixture
def planning(project: Path) -> Planning:
    return Planning(project=str(project))


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({}, "2024-11-05"),
        ({"protocolVersion": "2025-06-18"}, "2025-06-18"),
        ({"protocolVersion": "2025-11-25"}, "2025-11-25"),
        ({"protocolVersion": "1999-01-01"}, "2025-11-25"),
        ({"protocolVersion": ["odd"]}, "2025-11-25"),
    ],
)
def test_a_later_revision_is_spoken_when_a_client_asks_for_it(connect: Any, asked: Any, given: str) -> None:
    assert connect().handle("initialize", asked)["protocolVersion"] == given


def test_ping_and_notifications_and_unknown_methods(connect: Any) -> None:
    server = connect()
    assert server.handle("ping", {}) == {}
    server.handle("notifications/initialized", {})
    with pytest.raises(Fault) as fault:
        server.handle("resources/list", {})
    assert fault.value.code == -32601


def test_the_revision_without_a_handshake_is_spoken_request_by_request(connect: Any) -> None:
    server = connect()
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientInfo": {"name": "cursor", "version": "3"}}
    found = server.handle("server/discover", {"_meta": meta})
    assert found["supportedVersions"] == ["2026-07-28"] and found["resultType"] == "complete"
    assert found["_meta"][f"{prefix}serverInfo"] == {"name": "heimdall-ledger-mcp", "version": "1.0.0"}
    made = server.handle("tools/call", {"name": "read_claims", "_meta": meta})
    assert made["structuredContent"]["haid"].endswith("/cursor") and made["resultType"] == "complete"
    with pytest.raises(Fault) as fault:
        server.handle("ping", {"_meta": {f"{prefix}protocolVersion": "2031-01-01"}})
    assert (fault.value.code, fault.value.data["supported"]) == (-32022, ["2026-07-28"])
    with pytest.raises(Fault):
        server.handle("server/discover", {})


def test_exactly_the_six_tools_are_listed_with_closed_schemas(connect: Any) -> None:
    listed = connect().handle("tools/list", {})["tools"]
    assert [tool["name"] for tool in listed] == SIX
    for tool in listed:
        assert set(tool) == {"name", "description", "inputSchema"}
        jsonschema.Draft7Validator.check_schema(tool["inputSchema"])
        assert tool["inputSchema"]["additionalProperties"] is False
        assert "client_identity" in tool["inputSchema"]["properties"]
    by_name = {tool["name"]: tool["inputSchema"] for tool in listed}
    assert by_name["make_claim"]["required"] == ["surfaces", "task"]
    assert by_name["make_claim"]["properties"]["surfaces"]["minItems"] == 1
    assert by_name["make_claim"]["properties"]["ttl_minutes"] == {"type": "integer", "minimum": 1}
    assert by_name["raise_conflict_pr"]["required"] == ["id", "title", "surfaces"]


def test_what_a_tool_may_change_is_said_to_those_whose_revision_has_it(connect: Any) -> None:
    listed = modern(connect, "2025-03-26", extended=True).handle("tools/list", {})["tools"]
    hints = {tool["name"]: tool["annotations"] for tool in listed}
    reading = {"read_claims", "read_capsules", "get_fact", "resolve", "hydrate", "brief"}
    assert {name for name, hint in hints.items() if hint["readOnlyHint"]} == reading
    assert {name for name, hint in hints.items() if hint.get("destructiveHint")} == {"release_claim", "set_fact"}


def test_the_six_cost_less_than_three_kilobytes_in_every_request(connect: Any) -> None:
    """Also with all that a client of a later revision is told: Gemini CLI puts every field into the request."""
    assert len(json.dumps(modern(connect).handle("tools/list", {})["tools"])) < 3500
    shown = [{"name": one.name, "description": one.description, "input_schema": one.schema} for one in mcp.SIX]
    assert len(json.dumps(shown)) < 3000


def test_the_additions_come_only_when_asked_for_and_change_the_version(connect: Any) -> None:
    server = connect(extended=True)
    assert server.handle("initialize", {})["serverInfo"]["version"] == "1.1.0"
    names = [tool["name"] for tool in server.handle("tools/list", {})["tools"]]
    added = ["heartbeat", "post_message", "read_messages", "set_fact", "get_fact", "resolve", "hydrate", "brief"]
    assert names == SIX + added
    assert fails(connect("cursor"), "heartbeat")["error"] == "unknown tool: heartbeat"


def test_calls_work_without_initialize(connect: Any) -> None:
    assert call(connect(), "read_claims")["haid"].endswith("/mcp-client")


def test_who_connects_is_registered_and_the_revoked_can_do_nothing(connect: Any) -> None:
    server = connect("cursor")
    haid = call(server, "read_claims")["haid"]
    entry = server.agents.get(haid)
    assert (entry["role"], entry["tool"], entry["tool_version"], entry["status"]) == ("cursor", "cursor", "1", "active")
    server.agents.revoke(haid)
    for tool, arguments in [
        ("read_claims", {}),
        ("make_claim", {"surfaces": ["a"], "task": "T"}),
        ("release_claim", {}),
        ("read_capsules", {}),
        ("append_decision", {"title": "t", "body": "b"}),
        ("raise_conflict_pr", {"id": "c", "title": "t", "surfaces": ["a"]}),
        ("make_claim", {"surfaces": ["a"], "task": "T", "client_identity": "copilot"}),
    ]:
        assert "revoked" in fails(server, tool, **arguments)["error"]


def test_what_a_connected_client_holds_is_renewed(connect: Any, planning: Planning) -> None:
    server = connect("cursor")
    call(server, "make_claim", surfaces=["src"], task="T", ttl_minutes=4)
    (file,) = Path(server.claims.directory).glob("*.json")
    fields = json.loads(file.read_text())
    grow_old(server.claims, fields["haid"])
    server.renew()
    assert json.loads(file.read_text())["heartbeat"] >= fields["heartbeat"]


def test_a_host_may_say_who_its_client_is_and_a_person_has_no_role(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEIMDALL_HAID", "haid:ann.box-0001/coder")
    assert call(connect("cursor"), "read_claims")["haid"] == "haid:ann.box-0001/coder"
    monkeypatch.setenv("HEIMDALL_HAID", "haid:ann.box-0001")
    assert call(connect("cursor"), "read_claims")["haid"] == "haid:ann.box-0001/cursor"


def test_a_server_of_live_state_offers_what_leaves_the_worktree_alone(planning: Planning) -> None:
    server = Server(planning, live=True, identity="haid:ann.box-0001/native")
    try:
        server.handle("initialize", {"protocolVersion": "2025-11-25", "clientInfo": {"name": "x", "version": "2"}})
        named = {tool["name"] for tool in server.handle("tools/list", {})["tools"]}
        assert {"read_claims", "make_claim", "release_claim"} <= named and "append_decision" not in named
        assert call(server, "make_claim", surfaces=["src"], task="T")["haid"] == "haid:ann.box-0001/native"
        entry = server.agents.get("haid:ann.box-0001/native")
        assert entry is not None and (entry["tool"], entry["tool_version"]) == ("x", "2")
    finally:
        server.close()
