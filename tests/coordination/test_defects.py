"""Defects seen in the original tools: they fail each of these tests."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.coordination.conftest import Run, git

ANN, BOB = "haid:ann.box-0001", "haid:bob.box-0002"
GOOD = '{"type":"question","from":"a","msg_id":"m","question":"?"}'


def trail(project: Path) -> list[list[str]]:
    return [line.split("\t") for line in (project / ".git/heimdall/protocol.log").read_text().splitlines()]


# Messages...


@pytest.mark.parametrize("text", ["[]", '"text"', "1", "null", "false", "", "{} {}", '{"type":', "[" * 5000])
def test_input_that_is_no_object_crashed_the_validator(heimdall: Run, text: str) -> None:
    done = heimdall("validate", stdin=text)
    report = json.loads(done.stdout)
    assert done.returncode == 1 and done.stderr == ""
    assert report["valid"] is False and report["errors"]


@pytest.mark.parametrize(
    "change",
    [{"type": None}, {"question": ""}, {"question": 1}, {"refs": [1]}, {"from": 7}, {"ts": 1}, {"reply_to": []}],
)
def test_the_validator_let_through_what_its_own_schema_forbids(heimdall: Run, change: dict[str, Any]) -> None:
    assert heimdall("validate", stdin=json.dumps({**json.loads(GOOD), **change})).returncode == 1


def test_a_last_line_without_a_newline_was_lost(heimdall: Run) -> None:
    assert heimdall("validate", "--on-receipt", stdin=GOOD).stdout == "ACCEPTED\n"
    mended = heimdall("validate", "--on-receipt", stdin="nonsense\n" + GOOD)
    assert mended.stdout == "ACCEPTED on retry (attempt 2)\n"


# The trail...


def test_tabs_and_newlines_in_values_split_the_log_and_the_list(heimdall: Run, project: Path) -> None:
    assert heimdall("resolve", "set", "A", "x\ty\nz").returncode == 0
    assert heimdall("resolve", "A").stdout == "x\ty\nz\n"
    assert heimdall("resolve", "list").stdout == "A\tx\\ty\\nz\n"
    assert [len(row) for row in trail(project)] == [4, 4, 4]


@pytest.mark.parametrize(
    "words",
    [
        "resolve list", "resolve nothing", "blackboard list", "blackboard get nothing", "capsule list",
        "capsule show nothing", "capsule deps nothing", "capsule hydrate nothing", "ledger report", "ledger delta",
        "haid current", "haid list", "claim list", "claim check a", "claim show", "claim reap", "claim release",
    ],
)  # fmt: skip
def test_some_actions_left_no_line_in_the_log(heimdall: Run, project: Path, words: str) -> None:
    heimdall(*words.split())
    (row,) = trail(project)
    assert len(row) == 4


# Symbols and facts...


def test_an_empty_value_could_be_stored_but_not_read(heimdall: Run) -> None:
    for name in ("resolve", "blackboard"):
        assert heimdall(name, "set", "A", "").returncode == 0
    assert heimdall("resolve", "A").stdout == "\n"
    assert heimdall("blackboard", "get", "A").stdout == "\n"


def test_a_symbol_named_like_a_command_could_not_be_looked_up(heimdall: Run) -> None:
    for name in ("set", "list", "lookup"):
        heimdall("resolve", "set", name, f"the {name}")
        assert heimdall("resolve", "lookup", name).stdout == f"the {name}\n"


# Capsules and briefs...


def test_an_oversize_rewrite_destroyed_the_capsule(heimdall: Run) -> None:
    heimdall("capsule", "write", "w1", "--what", "kept")
    assert heimdall("capsule", "write", "w1", "--what", "1\n2\n3\n4\n5\n6").returncode == 2
    assert "WHAT: kept" in heimdall("capsule", "show", "w1").stdout


def test_an_id_could_leave_the_directory(heimdall: Run, project: Path) -> None:
    assert heimdall("capsule", "write", "../../evil", "--what", "x").returncode == 2
    assert not list(project.rglob("evil*"))


def test_a_diamond_was_hydrated_out_of_order(heimdall: Run) -> None:
    heimdall("capsule", "write", "base", "--what", "x")
    heimdall("capsule", "write", "L", "--what", "x", "--depends", "base")
    heimdall("capsule", "write", "T", "--what", "x", "--depends", "base,L")
    assert heimdall("capsule", "deps", "T").stdout.split() == ["base", "L", "T"]


def test_a_missing_dependency_was_noticed_after_half_the_output(heimdall: Run) -> None:
    heimdall("capsule", "write", "w2", "--what", "x", "--depends", "gone")
    for done in (
        heimdall("capsule", "hydrate", "w2"),
        heimdall("capsule", "deps", "w2"),
        heimdall("brief", "build", "--task", "1", "--spec", "s", "--capsules", "w2"),
    ):
        assert (done.returncode, done.stdout) == (1, "")
        assert "gone (needed by w2)" in done.stderr


# The ledger...


def test_a_regression_was_printed_with_two_minus_signs(heimdall: Run) -> None:
    heimdall("ledger", "baseline", "--role", "r", "--tokens", "100")
    heimdall("ledger", "log", "--role", "r", "--kind", "k", "--tokens", "807")
    assert "; +707%)" in heimdall("ledger", "delta").stdout


def test_one_malformed_line_made_every_report_fail(heimdall: Run, project: Path) -> None:
    heimdall("ledger", "log", "--role", "r", "--kind", "k", "--tokens", "5")
    with (project / ".planning/protocol/ledger.jsonl").open("a") as file:
        file.write("garbage\n")
    done = heimdall("ledger", "report")
    assert done.returncode == 0 and "TOTAL: 5 tokens" in done.stdout
    assert "1 unreadable line(s) skipped" in done.stderr
    assert heimdall("ledger", "delta").returncode == 0


# Places and identities...


def test_the_planning_directory_was_that_of_the_tools_own_checkout(
    heimdall: Run, project: Path, tmp_path: Path
) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    heimdall("resolve", "set", "F1", "x", cwd=tmp_path / "other")
    assert heimdall("resolve", "F1", cwd=project / "src").stdout == "x\n"
    assert heimdall("haid", cwd=tmp_path / "other").stdout != heimdall("haid").stdout


def test_a_missing_option_value_was_an_error_of_the_shell(heimdall: Run) -> None:
    for words in (["capsule", "write", "w", "--what"], ["ledger", "log", "--role"], ["brief", "build", "--task"]):
        assert heimdall(*words).returncode == 2
    assert heimdall("capsule", "write", "w", "--what", "x", "--where", "").returncode == 2


def test_every_agent_was_registered_as_claude_code(heimdall: Run) -> None:
    heimdall("haid", "register", "--haid", f"{ANN}/cursor", "--tool", "cursor")
    assert json.loads(heimdall("haid", "get", f"{ANN}/cursor").stdout)["tool"] == "cursor"


def test_a_revoked_identity_could_still_claim(heimdall: Run) -> None:
    heimdall("haid", "register", "--haid", ANN)
    heimdall("haid", "revoke", ANN)
    assert heimdall("claim", "claim", "src", "--task", "T", HEIMDALL_HAID=ANN).returncode == 2
    assert heimdall("claim", "list", "--json").stdout == "[]\n"


def test_anybody_could_release_anybodys_claim(heimdall: Run, project: Path) -> None:
    heimdall("claim", "claim", "src", "--task", "T", HEIMDALL_HAID=ANN)
    assert heimdall("claim", "release", "--haid", ANN, HEIMDALL_HAID=BOB).returncode == 2
    assert heimdall("claim", "release", "--haid", ANN, "--force", HEIMDALL_HAID=BOB).returncode == 2
    assert heimdall("claim", "list").stdout.startswith("ACTIVE CLAIMS (1)")
    forced = heimdall("claim", "release", "--haid", ANN, "--force", "--reason", "on leave", HEIMDALL_HAID=BOB)
    assert forced.returncode == 0
    assert "on leave" in (project / ".planning/ledger/decisions.md").read_text()


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ("src/a/**", "src/*/b.ts"),
        ("src/a/**", "./src/a/b.ts"),
        ("src/a/**", "src//a/b.ts"),
        ("src/a/**", "src/?/b.ts"),
        ("src/a/**", "src/[a]/b.ts"),
        ("*.md", "README.md"),
    ],
)
def test_these_overlaps_were_missed(heimdall: Run, held: str, asked: str) -> None:
    heimdall("claim", "claim", held, "--task", "T", HEIMDALL_HAID=ANN)
    assert heimdall("claim", "claim", asked, "--task", "T", HEIMDALL_HAID=BOB).returncode == 3


# MCP...


def call(tool: str, **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode() + b"\n"


def result(heimdall: Run, message: bytes) -> dict[str, Any]:
    return dict(json.loads(heimdall("ledger-mcp", stdin=message).stdout)["result"])


def test_a_body_that_is_not_ascii_desynchronised_the_stream(heimdall: Run) -> None:
    body = '{"jsonrpc":"2.0","id":"ü→🚀","method":"ping"}'.encode()
    frame = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    answers = heimdall("ledger-mcp", stdin=frame * 3).stdout.splitlines()
    assert [json.loads(answer) for answer in answers] == [{"jsonrpc": "2.0", "id": "ü→🚀", "result": {}}] * 3


def test_all_clients_of_a_checkout_shared_one_claim(heimdall: Run) -> None:
    one = call("make_claim", surfaces=["src"], task="T", client_identity="cursor")
    two = call("make_claim", surfaces=["src"], task="T", client_identity="copilot")
    assert not result(heimdall, one)["isError"]
    assert result(heimdall, two)["isError"]


def test_release_answered_that_there_was_no_claim(heimdall: Run) -> None:
    result(heimdall, call("make_claim", surfaces=["src"], task="T"))
    assert result(heimdall, call("release_claim"))["structuredContent"]["released"] is True
    assert heimdall("claim", "list", "--json").stdout == "[]\n"


def test_not_every_result_echoed_the_haid(heimdall: Run) -> None:
    for tool in ("read_claims", "read_capsules", "release_claim"):
        assert result(heimdall, call(tool))["structuredContent"]["haid"].endswith("/mcp-client")


def test_unknown_arguments_were_ignored(heimdall: Run) -> None:
    assert result(heimdall, call("read_claims", nonsense=1))["isError"]
