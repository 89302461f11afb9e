"""The ledger server's conversation, whatever the transport."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from treadle.coordination.capsules import Capsules
from treadle.coordination.claims import Claims
from treadle.coordination.identity import root
from treadle.coordination.mcp import Server
from treadle.coordination.planning import Planning
from treadle.coordination.symbols import Symbols
from treadle.wire.common.jsonrpc import Fault

SIX = ["read_claims", "make_claim", "release_claim", "read_capsules", "append_decision", "raise_conflict_pr"]


@pytest.fixture
def planning(project: Path) -> Planning:
    return Planning(project=str(project))


@pytest.fixture
def connect(planning: Planning) -> Iterator[Any]:
    servers: list[Server] = []

    def make(name: str | None = None, extended: bool = False) -> Server:
        server = Server(planning, extended=extended)
        servers.append(server)
        if name:
            server.handle("initialize", {"clientInfo": {"name": name, "version": "1"}})
        return server

    yield make
    for server in servers:
        server.close()


def call(server: Server, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = server.handle("tools/call", {"name": tool, "arguments": arguments})
    assert not answer["isError"], answer
    assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
    assert answer["structuredContent"]["haid"].startswith("haid:")
    return dict(answer["structuredContent"])


def fails(server: Server, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = server.handle("tools/call", {"name": tool, "arguments": arguments})
    assert answer["isError"] and "structuredContent" not in answer
    body = json.loads(answer["content"][0]["text"])
    assert body["error"] and "detail" in body and "haid" in body
    return dict(body)


# Handshake...


def test_initialize_is_answered_as_published(connect: Any) -> None:
    answer = connect().handle("initialize", {"protocolVersion": "2024-11-05", "clientInfo": {"name": "cursor"}})
    assert answer.pop("instructions")
    assert answer == {
        "protocolVersion": "2024-11-05",
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "heimdall-ledger-mcp", "version": "1.0.0"},
    }


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


# Tools...


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


def test_the_additions_come_only_when_asked_for_and_change_the_version(connect: Any) -> None:
    server = connect(extended=True)
    assert server.handle("initialize", {})["serverInfo"]["version"] == "1.1.0"
    names = [tool["name"] for tool in server.handle("tools/list", {})["tools"]]
    added = ["heartbeat", "post_message", "read_messages", "set_fact", "get_fact", "resolve", "hydrate", "brief"]
    assert names == SIX + added
    assert fails(connect("cursor"), "heartbeat")["error"] == "unknown tool: heartbeat"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"surfaces": [], "task": "T"},
        {"surfaces": "src", "task": "T"},
        {"surfaces": [1], "task": "T"},
        {"surfaces": ["src"], "task": ""},
        {"surfaces": ["src"], "task": "T", "ttl_minutes": 0},
        {"surfaces": ["src"], "task": "T", "ttl_minutes": "90"},
        {"surfaces": ["src"], "task": "T", "more": 1},
        {"surfaces": ["src"], "task": "T", "client_identity": 3},
    ],
)
def test_arguments_are_validated_and_nothing_happens(connect: Any, planning: Planning, arguments: Any) -> None:
    assert "arguments are not right" in fails(connect("cursor"), "make_claim", **arguments)["error"]
    assert Claims(planning).active() == []


def test_arguments_that_are_no_object_and_names_that_are_none(connect: Any) -> None:
    server = connect("cursor")
    assert server.handle("tools/call", {"name": "read_claims", "arguments": [1]})["isError"]
    assert not server.handle("tools/call", {"name": "read_claims"})["isError"]
    assert fails(server, "frobnicate")["error"] == "unknown tool: frobnicate"
    with pytest.raises(Fault) as fault:
        server.handle("tools/call", {"arguments": {}})
    assert fault.value.code == -32602


def test_a_claim_belongs_to_the_client_and_its_task_names_it(connect: Any, planning: Planning) -> None:
    made = call(connect("cursor"), "make_claim", surfaces=["src/a/**"], task="T-9", ttl_minutes=30)
    haid = root(planning.project) + "/cursor"
    assert made["haid"] == made["client_haid"] == haid
    assert made["task_ref"] == f"T-9 (via heimdall-ledger-mcp:{haid})"
    assert (made["task"], made["surfaces"]) == ("T-9", ["src/a/**"])
    (claim,) = Claims(planning).active()
    assert (claim.haid, claim.task, claim.fields["ttl_minutes"]) == (haid, made["task_ref"], 30)


def test_claims_of_two_clients_really_collide(connect: Any, planning: Planning) -> None:
    cursor, copilot = connect("cursor"), connect("copilot")
    call(cursor, "make_claim", surfaces=["src/a/**"], task="T-1")
    refused = fails(copilot, "make_claim", surfaces=["src/*/b.ts"], task="T-2")
    assert refused["error"].startswith("COLLISION") and "/cursor" in refused["detail"]
    assert refused["data"][0]["held"] == "src/a/**"
    assert call(copilot, "read_claims")["count"] == 1
    assert "not" in fails(copilot, "release_claim", haid=root(planning.project) + "/cursor")["error"]
    assert call(cursor, "release_claim")["released"] is True
    assert call(cursor, "release_claim")["result"].startswith("no active claim")
    call(copilot, "make_claim", surfaces=["src/*/b.ts"], task="T-2")


def test_two_live_clients_of_one_name_are_two_identities(connect: Any) -> None:
    one, two = connect("claude-code"), connect("claude-code")
    assert call(one, "make_claim", surfaces=["src"], task="T-1")["haid"].endswith("/claude-code")
    assert fails(two, "make_claim", surfaces=["src/a"], task="T-2")["haid"].endswith("/claude-code-2")
    one.close()
    again = connect("claude-code")  # it reconnects and finds its own claim
    assert call(again, "release_claim")["released"] is True


def test_an_identity_can_be_given_for_one_call(connect: Any) -> None:
    server = connect("gateway")
    assert call(server, "make_claim", surfaces=["a"], task="T", client_identity="cursor")["haid"].endswith("/cursor")
    assert call(server, "read_claims")["haid"].endswith("/gateway")
    assert call(server, "release_claim", client_identity="cursor")["released"] is True


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


def test_capsules_of_both_kinds_are_read(connect: Any, planning: Planning) -> None:
    server = connect("cursor", extended=True)
    completed = Path(planning.path("ledger", "completed"))
    completed.mkdir(parents=True)
    (completed / "2026-06-11-t1.md").write_text("done")
    (completed / "README.md").write_text("not a capsule")
    from treadle.coordination.capsules import Capsules

    Capsules(planning).write("w1", "one")
    found = call(server, "read_capsules")
    assert [(capsule["id"], capsule["source"]) for capsule in found["capsules"]] == [
        ("2026-06-11-t1", "completed"),
        ("w1", "protocol"),
    ]
    (one,) = call(server, "read_capsules", id="w1")["capsules"]
    assert one["body"].startswith("---\nid: w1\n") and Path(one["path"]).is_absolute()
    assert call(server, "read_capsules", id="nothing")["count"] == 0


def test_decisions_and_conflicts_are_signed(connect: Any, planning: Planning) -> None:
    server = connect("cursor")
    done = call(server, "append_decision", title=" use it ", body="because")
    assert done["appended"] is True and done["title"] == "use it" and done["timestamp"]
    text = Path(planning.path("ledger", "decisions.md")).read_text()
    assert f"— use it\n\nbecause\n\n_via heimdall-ledger-mcp by `{done['haid']}`_\n" in text
    raised = call(server, "raise_conflict_pr", id="c1", title="t", surfaces=["src"], displaced_haid="haid:bob.b-0002")
    assert Path(raised["conflict_file"]).exists()
    assert "already" in fails(server, "raise_conflict_pr", id="c1", title="t", surfaces=["src"])["error"]


def test_the_additions_do_what_the_commands_do(connect: Any) -> None:
    ann, bob = connect("ann", extended=True), connect("bob", extended=True)
    call(ann, "set_fact", key="port", value="5173")
    assert call(bob, "get_fact", key="port")["value"] == "5173"
    assert "no fact" in fails(bob, "get_fact", key="nothing")["error"]
    from treadle.coordination.capsules import Capsules
    from treadle.coordination.symbols import Symbols

    Symbols(ann.planning).set("F1", "src/x.ts")
    Capsules(ann.planning).write("w1", "one")
    assert call(bob, "resolve", id="F1")["value"] == "src/x.ts"
    assert call(bob, "resolve", value="src/x.ts")["id"] == "F1"
    assert "either" in fails(bob, "resolve")["error"]
    assert "WHAT: one" in call(bob, "hydrate", ids=["w1"])["text"]
    brief = call(bob, "brief", task="1", spec="do", symbols=["F1"], capsules=["w1"])["brief"]
    assert "F1 = src/x.ts" in brief and "WHAT: one" in brief
    assert "incomplete" in fails(bob, "brief", task="1", spec="do", symbols=["F9"], strict=True)["error"]
    assert call(ann, "heartbeat")["claim"] is None
    call(ann, "make_claim", surfaces=["a"], task="T")
    assert call(ann, "heartbeat")["claim"]["expires_at"]
    message = {"type": "question", "from": "ann", "msg_id": "q1", "question": "why?"}
    assert call(ann, "post_message", message=message, to="bob")["posted"] == "q1"
    assert "not a valid message" in fails(ann, "post_message", message={"type": "x"})["error"]
    (entry,) = call(bob, "read_messages")["messages"]
    assert entry["message"] == message
    done = call(bob, "read_messages", ack=["q1"])
    assert (done["acked"], done["count"]) == (["q1"], 0)
    assert call(bob, "read_messages", acknowledged=True)["count"] == 1


# Real use...


def test_claims_add_up_and_every_answer_names_what_is_held_and_what_was_given_up(connect: Any) -> None:
    server = connect("cursor")
    first = call(server, "make_claim", surfaces=["src/a/**", "scr/x"], task="T-1")
    assert first["warnings"] == ["scr/x matches no file"] and "HEIMDALL" not in first["commit"]
    second = call(server, "make_claim", surfaces=["docs"], task="T-2")
    assert second["surfaces"] == ["docs"] and second["held"] == ["src/a/**", "scr/x", "docs"]
    given = call(server, "release_claim", surfaces=["scr/x"])
    assert (given["given_up"], given["held"]) == (["scr/x"], ["src/a/**", "docs"])
    assert "does not hold" in fails(server, "release_claim", surfaces=["elsewhere"])["error"]
    assert "outside" in fails(server, "make_claim", surfaces=["../x"], task="T")["error"]
    assert call(server, "release_claim")["given_up"] == ["src/a/**", "docs"]


def test_a_holder_is_told_who_waits(connect: Any) -> None:
    one, two = connect("cursor"), connect("copilot")
    call(one, "make_claim", surfaces=["src"], task="T-1")
    fails(two, "make_claim", surfaces=["src/a"], task="T-2")
    (wait,) = call(one, "read_claims")["waiting"]
    assert wait["haid"].endswith("/copilot") and wait["surfaces"] == ["src/a"]
    call(one, "release_claim")
    call(two, "make_claim", surfaces=["src/a"], task="T-2")
    assert "waiting" not in call(one, "read_claims")


@pytest.mark.parametrize(
    "arguments",
    [
        {"surfaces": ["src"], "task": "\ud800"},
        {"surfaces": ["\udfff"], "task": "T"},
        {"surfaces": ["src"], "task": "T", "ttl_minutes": float("inf")},
        {"surfaces": ["src"], "task": "T", "client_identity": "\ud800"},
    ],
    ids=["task", "surface", "ttl", "identity"],
)
def test_half_a_surrogate_and_a_number_without_end_are_errors(connect: Any, arguments: dict[str, Any]) -> None:
    server = connect("cursor")
    answer = server.handle("tools/call", {"name": "make_claim", "arguments": arguments})
    if arguments.get("client_identity"):
        assert answer["structuredContent"]["haid"].endswith("/mcp-client")  # a name that has no usable letter
        return
    assert answer["isError"]
    json.dumps(answer, ensure_ascii=False).encode()
    assert call(server, "read_claims")["count"] == 0


def test_hints_name_only_what_a_tool_can_do(connect: Any) -> None:
    one, two = connect("cursor"), connect("copilot")
    held = call(one, "make_claim", surfaces=["src"], task="T")
    for failed in (
        fails(two, "release_claim", haid=held["haid"]),
        fails(two, "make_claim", surfaces=[""], task="T"),
        fails(two, "make_claim", surfaces=["x"], task="T", ttl_minutes=10**9),
    ):
        assert "--" not in failed["detail"] and "heimdall-claim" not in failed["detail"]


def test_capsules_come_in_pages(connect: Any, planning: Planning) -> None:
    from treadle.coordination.capsules import Capsules

    capsules = Capsules(planning)
    for number in range(120):
        capsules.write(f"w{number:03}", f"did {number}")
    server = connect("cursor")
    pages = [call(server, "read_capsules")]
    while "next" in pages[-1]:
        pages.append(call(server, "read_capsules", after=pages[-1]["next"]))
    assert [page["count"] for page in pages] == [50, 50, 20] and pages[0]["total"] == 120
    assert [row["id"] for page in pages for row in page["capsules"]] == [f"w{number:03}" for number in range(120)]
    assert call(server, "read_capsules", limit=7)["count"] == 7
    assert call(server, "read_capsules", id="w007")["capsules"][0]["body"]


def test_what_a_connected_client_holds_is_renewed(connect: Any, planning: Planning) -> None:
    server = connect("cursor")
    call(server, "make_claim", surfaces=["src"], task="T", ttl_minutes=4)
    (file,) = Path(server.claims.directory).glob("*.json")
    fields = json.loads(file.read_text())
    file.write_text(json.dumps({**fields, "heartbeat": "2020-01-01T00:00:00Z"}))
    server.renew()
    assert json.loads(file.read_text())["heartbeat"] >= fields["heartbeat"]


# Later revisions...


def modern(connect: Any, revision: str = "2025-11-25", **more: Any) -> Server:
    server: Server = connect(**more)
    server.handle("initialize", {"protocolVersion": revision, "clientInfo": {"name": "cursor"}})
    return server


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


def test_claims_symbols_and_capsules_are_resources(connect: Any, planning: Planning) -> None:
    server = modern(connect)
    Symbols(planning).set("F1", "src/a")
    Capsules(planning).write("w1", "added it")
    call(server, "make_claim", surfaces=["src/a/**"], task="T-1")
    listed = server.handle("resources/list", {})["resources"]
    assert [one["uri"] for one in listed] == ["heimdall://claims", "heimdall://symbols", "heimdall://capsules/w1"]
    texts = [server.handle("resources/read", {"uri": one["uri"]})["contents"][0]["text"] for one in listed]
    assert json.loads(texts[0])[0]["claimed_surfaces"] == ["src/a/**"]
    assert json.loads(texts[1]) == {"F1": "src/a"} and "WHAT: added it" in texts[2]
    (template,) = server.handle("resources/templates/list", {})["resourceTemplates"]
    assert template["uriTemplate"] == "heimdall://capsules/{id}"
    for uri in ("heimdall://capsules/none", "heimdall://capsules/../x", "file:///etc/passwd", None, 3):
        with pytest.raises(Fault) as found:
            server.handle("resources/read", {"uri": uri})
        assert found.value.code == -32002
    with pytest.raises(Fault):
        server.handle("resources/list", {"cursor": "heimdall://none"})


def test_resources_come_in_pages(connect: Any, planning: Planning, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.coordination.resources.PAGE", 2)
    for number in range(3):
        Capsules(planning).write(f"w{number}", "done")
    server, found, cursor = modern(connect), [], {}
    while True:
        page = server.handle("resources/list", cursor)
        found += [one["name"] for one in page["resources"]]
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert found == ["claims", "symbols", "w0", "w1", "w2"]


def test_a_client_of_the_first_revision_is_offered_none_of_it(connect: Any) -> None:
    server = connect("cursor")
    for method in ("resources/list", "resources/subscribe", "logging/setLevel"):
        with pytest.raises(Fault):
            server.handle(method, {})


def test_a_subscriber_and_one_who_waits_are_told_of_changes(connect: Any) -> None:
    server, holder = modern(connect), connect("copilot")
    server.handle("resources/subscribe", {"uri": "heimdall://claims"})
    call(holder, "make_claim", surfaces=["src/a/**"], task="T-1")
    (updated,) = server.news()
    assert updated["method"] == "notifications/resources/updated" and updated["params"]["uri"] == "heimdall://claims"
    assert server.news() == []
    fails(server, "make_claim", surfaces=["src/a/b.ts"], task="T-2")
    assert server.watches() and server.news() == []
    call(holder, "release_claim")
    updated, free = server.news()
    assert free["method"] == "notifications/message" and free["params"]["data"]["free"] == ["src/a/b.ts"]
    assert server.news() == []
    server.handle("resources/unsubscribe", {"uri": "heimdall://claims"})
    call(server, "make_claim", surfaces=["src/a/b.ts"], task="T-2")
    assert not server.watches() and server.news() == []


def test_one_who_wants_only_warnings_is_not_told_what_is_free(connect: Any) -> None:
    server, holder = modern(connect), connect("copilot")
    server.handle("logging/setLevel", {"level": "warning"})
    call(holder, "make_claim", surfaces=["src/a/**"], task="T-1")
    fails(server, "make_claim", surfaces=["src/a/b.ts"], task="T-2")
    call(holder, "release_claim")
    assert server.news() == []
