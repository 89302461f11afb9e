"""The ledger's tools: what a call does, for whom, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.coordination.clients import call, fails
from treadle.coordination.capsules import Capsules
from treadle.coordination.claims import Claims
from treadle.coordination.identity import root
from treadle.coordination.planning import Planning
from treadle.wire.common.jsonrpc import Fault


@pytest.fixture
def planning(project: Path) -> Planning:
    return Planning(project=str(project))


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


def test_capsules_of_both_kinds_are_read(connect: Any, planning: Planning) -> None:
    server = connect("cursor", extended=True)
    completed = Path(planning.path("ledger", "completed"))
    completed.mkdir(parents=True)
    (completed / "2026-06-11-t1.md").write_text("done")
    (completed / "README.md").write_text("not a capsule")
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
    from treadle.coordination.ledger import Symbols

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


def test_claims_add_up_and_every_answer_names_what_is_held_and_what_was_given_up(connect: Any) -> None:
    server = connect("cursor")
    first = call(server, "make_claim", surfaces=["src/a/**", "scr/x"], task="T-1")
    assert first["warnings"] == ["scr/x matches no file"] and "HEIMDALL" not in first["commit"]
    second = call(server, "make_claim", surfaces=["docs"], task="T-2")
    assert second["surfaces"] == ["docs"] and second["held"] == ["src/a/**", "scr/x", "docs"]
    given = call(server, "release_claim", surfaces=["scr/x"])
    assert (given["given_up"], given["held"]) == (["scr/x"], ["src/a/**", "docs"])
    assert "has not claimed" in fails(server, "release_claim", surfaces=["elsewhere"])["error"]
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


def test_the_first_claim_installs_the_guards_and_a_later_one_warns_where_they_are_gone(
    connect: Any, project: Path
) -> None:
    client, hook = connect("cursor"), project / ".git" / "hooks" / "pre-commit"
    first = call(client, "make_claim", surfaces=["src"], task="T")
    assert first["guard"].startswith("git hooks were installed") and "warnings" not in first and hook.exists()
    again = call(client, "make_claim", surfaces=["src/a"], task="T")
    assert "guard" not in again and "warnings" not in again
    hook.unlink()
    (warning,) = call(client, "make_claim", surfaces=["src/a/b.ts"], task="T")["warnings"]
    assert "not refused here (pre-commit)" in warning
