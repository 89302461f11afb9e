"""What a person is shown of a run: its exit code, and nothing that acts on their terminal."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from treadle.cli import host
from treadle.cli.host import COMPLETE, FAILED, PARTIAL, exit_code, show_receipt
from treadle.host.backends import Known, Probe
from treadle.host.job import Backend
from treadle.redact import Redactor
from treadle.testing.conversations.sidecar import SAMPLE_RECEIPT
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.receipts import UsageTotals


def receipt(outcome: Any, workspace: Any = None) -> Any:
    more = {"treadle": {"workspace": workspace}} if workspace is not None else {}
    return replace(SAMPLE_RECEIPT, outcome=outcome, usage_raw=more)


@pytest.mark.parametrize(
    ("outcome", "workspace", "code"),
    [
        ("complete", None, COMPLETE),
        ("partial", None, PARTIAL),
        ("failed", None, FAILED),
        ("complete", {"apply": False}, COMPLETE),
        ("complete", {"apply": True, "applied": {"conflicts": []}}, COMPLETE),
        ("complete", {"apply": True, "applied": {"conflicts": ["a"]}}, FAILED),
        ("complete", {"apply": True, "applied": None}, FAILED),
        ("complete", {"apply": True}, FAILED),
        ("partial", {"apply": True}, PARTIAL),
    ],
)
def test_the_exit_code_is_as_the_receipt_says_and_not_0_when_nothing_was_applied(
    outcome: str, workspace: Any, code: int
) -> None:
    assert exit_code(receipt(outcome, workspace)) == code


@pytest.mark.parametrize("raw", [None, [], "x", 7, {"treadle": None}, {"treadle": {}}])
def test_a_receipt_of_another_program_has_an_exit_code_too(raw: Any) -> None:
    assert exit_code(replace(SAMPLE_RECEIPT, outcome="complete", usage_raw=raw)) == COMPLETE


def test_a_receipt_is_shown_with_its_outcome_and_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show_receipt(SAMPLE_RECEIPT, "/kept/r.json")
    text = capsys.readouterr().out
    assert SAMPLE_RECEIPT.outcome in text and "/kept/r.json" in text


def test_what_an_agent_said_cannot_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J"
    events = [
        replace(event, **{name: evil}) for event in SAMPLE_RECEIPT.trace for name in ("text",) if hasattr(event, name)
    ]
    assert events, "the sample has words"
    host.show_events(events)
    assert "\x1b" not in capsys.readouterr().out


PLACE = {
    "source": "/src",
    "mode": "staged",
    "sealed": True,
    "confined_by": "landlock",
    "branch": "b",
    "result_commit": "c" * 40,
    "kept": "/work",
    "applied": {"conflicts": [], "written": ["a"], "deleted": [], "before": "1" * 40, "after": None},
}
WALLS = {"method": "bubblewrap", "covers": "commands", "hosts": ["a.example"], "network": "off", "cannot": ["limit"]}
MORE: dict[str, Any] = {
    "order": {"task": "do\nit"},
    "policy": {"rules": {"deny": ["x"]}, "best_effort": True, "enforced": "kernel"},
    "earlier_attempts": [
        {"agent": "one", "outcome": "failed", "message": "a\nb"},
        {"agent": "two", "outcome": "failed"},
    ],
    "end": {"code": "timeout", "message": "too long", "said": {"message": "tired"}},
    "differences": ["said a, did b"],
    "notes": [{"where": "w", "problem": f"p{number}"} for number in range(7)],
    "observed": {
        "patch_lines_redacted": 2,
        "hidden": ["h"],
        "hidden_left_out": 20,
        "permissions": [{"path": "p", "before": "644", "after": "755"}],
        "check": {"command": "true", "ok": True},
        "oddities": [{"path": f"o{number}", "note": "odd"} for number in range(6)],
    },
    "workspace": PLACE,
    "confinement": WALLS,
    "artifacts": [
        {"kind": "log", "path": "l", "kept": None, "problem": "gone"},
        {"kind": "log", "path": "m", "kept": "/nowhere/m", "bytes": 1},
        {"kind": "dir", "path": "n", "kept": "/dev/null", "bytes": 0},
    ],
}


def shown(capsys: pytest.CaptureFixture[str], more: dict[str, Any], status: str = " M a", **fields: Any) -> list[str]:
    verification = replace(SAMPLE_RECEIPT.verification, git_status=status)
    show_receipt(replace(SAMPLE_RECEIPT, verification=verification, usage_raw={"treadle": more}, **fields), "/r")
    return capsys.readouterr().out.splitlines()


def test_all_that_is_known_of_a_run_is_shown_in_its_order(capsys: pytest.CaptureFixture[str]) -> None:
    first, *rest = shown(capsys, MORE, usage=UsageTotals(input_tokens=5, output_tokens=0, estimated_cost_usd=0.5))
    assert first.startswith(f"{SAMPLE_RECEIPT.outcome}  {SAMPLE_RECEIPT.meta.run_id}  {SAMPLE_RECEIPT.backend.id}  ")
    assert rest == [
        "  task: do it",
        "  policy: enforced by the kernel (best effort)",
        "  before: one failed: a b",
        "  before: two failed: ",
        "  timeout: too long",
        "  its own reason: tired",
        "   M a",
        "  2 lines of the patch look like secrets: only its file shows them",
        "  not in the patch: h",
        "  and 1 more",
        "  permissions of p: 644, now 755",
        "  verified: 'true' passed",
        "  applied to /src: 1 written, 0 deleted, tree 111111111111 before, unknown after",
        "  branch b: cccccccccccc",
        "  the work is in /work",
        *(f"  odd: o{number}: odd" for number in range(5)),
        "  and 1 more that are odd",
        "  confined by bubblewrap: only the agent's commands, network only to a.example, mode staged",
        "  which cannot limit",
        "  missing log l: gone",
        "  missing log m: /nowhere/m was discarded",
        "  dir: /dev/null (0 bytes)",
        "  usage: in 5, 0.5000 USD (as the sidecar says)",
        "  claim and fact differ: said a, did b",
        *(f"  note: w: p{number}" for number in range(5)),
        "  and 2 more notes",
        "  receipt: /r",
    ]


def test_what_is_not_known_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, {"claimed": False}, "")[1:] == ["  receipt: /r"]
    assert shown(capsys, {}, "", usage=UsageTotals())[1:] == [
        "  usage: cost unknown (as the sidecar says)",
        "  receipt: /r",
    ]
    many = "\n".join(f"?? {number}" for number in range(21))
    assert shown(capsys, {"claimed": False}, many)[20:] == ["  ?? 19", "  and 1 more", "  receipt: /r"]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"workspace": {**PLACE, "sealed": False}}, "  not sealed: confined by landlock, in mode staged"),
        ({"workspace": {**PLACE, "confined_by": None}}, "  confined by nothing, in mode staged"),
        (
            {"workspace": PLACE, "confinement": {**WALLS, "hosts": [], "covers": "sidecar"}},
            "  confined by bubblewrap: the whole sidecar, network off, mode staged",
        ),
        (
            {"workspace": PLACE, "confinement": {**WALLS, "network": "off for commands"}},
            "  confined by bubblewrap: only the agent's commands, network of commands only to a.example, mode staged",
        ),
        (
            {"workspace": PLACE, "confinement": {**WALLS, "network": "open"}},
            "  confined by bubblewrap: only the agent's commands, network open, mode staged",
        ),
        (
            {"workspace": {**PLACE, "applied": {"conflicts": [{"path": "a", "reason": "both"}]}}},
            "  not applied, as these conflict:",
        ),
        ({"observed": {"check": {"command": "false", "ok": False}}}, "  verified: 'false' failed"),
        ({"policy": {"rules": {"deny": ["x"]}}}, "  policy: not applied: it did not begin"),
        (
            {"policy": {"rules": {"deny": ["x"]}, "lists": {"read": "kernel", "write": "guard", "run": "kernel"}}},
            "  policy: enforced by the kernel: read, run; asked before each act: write",
        ),
    ],
)
def test_what_was_enforced_and_applied_is_said_as_it_was(
    more: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert line in shown(capsys, more)


def test_a_policy_without_rules_is_no_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert not any(
        "policy" in line for line in shown(capsys, {"policy": {"rules": {"deny": []}, "enforced": "kernel"}})
    )


def test_each_kind_of_event_has_a_line_and_a_tool_that_worked_none(capsys: pytest.CaptureFixture[str]) -> None:
    at = SAMPLE_RECEIPT.trace[0].ts
    host.show_events(
        [
            receipts.AssistantSaid(ts=at, text="hello " * 100),
            receipts.ToolCalled(ts=at, tool_name="bash", input={"a": 1}),
            receipts.ToolReturned(ts=at, tool_name="bash", output="fine", is_error=False),
            receipts.ToolReturned(ts=at, tool_name="bash", output="bad", is_error=True),
            receipts.FileWritten(ts=at, path="p", summary="added"),
            receipts.CommandExecuted(ts=at, command="ls", exit_code=0),
            receipts.WarningGiven(ts=at, message="careful"),
            receipts.ErrorMet(ts=at, message="no"),
        ]
    )
    said = capsys.readouterr()
    assert said.out == "" and said.err.splitlines() == [
        ("hello " * 100)[: host.WIDTH].rstrip(),
        "  > bash {'a': 1}",
        "  x bash: bad",
        "  * p: added",
        "  $ ls (exit code 0)",
        "  ! careful",
        "  error: no",
    ]


def test_the_edges_of_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    notes = [{"where": "w", "problem": "p"}] * 5
    odd = [{"path": "o", "note": "odd"}] * 5
    lines = shown(capsys, {"notes": notes, "observed": {"oddities": odd, "permissions_left_out": 21}}, "?? x\n" * 20)
    assert not any("more notes" in line or "more that are odd" in line for line in lines)
    assert [line for line in lines if line.startswith("  and")] == ["  and 1 more"]
    plain = shown(capsys, {"workspace": PLACE, "confinement": {**WALLS, "cannot": []}})
    assert not any("which cannot" in line for line in plain)
    both = {"conflicts": [{"path": "a", "reason": "both"}]}
    assert "    a: both" in shown(capsys, {"workspace": {**PLACE, "applied": both}})
    assert not any("applied" in line for line in shown(capsys, {"workspace": {**PLACE, "applied": None}}))


def test_a_receipt_of_another_program_is_shown_without_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    show_receipt(replace(SAMPLE_RECEIPT, usage_raw=[]))
    out = capsys.readouterr().out
    assert out.startswith(f"{SAMPLE_RECEIPT.outcome}  ") and "  usage: " in out and "receipt: " not in out


def test_a_tool_without_input_has_a_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    host.show_events([receipts.ToolCalled(ts=SAMPLE_RECEIPT.trace[0].ts, tool_name="bash", input=None)])
    assert capsys.readouterr().err.rstrip() == "  > bash"


def test_backends_are_listed_by_name_with_the_default_marked(capsys: pytest.CaptureFixture[str]) -> None:
    known = {
        "b": Backend(name="b", argv=("run", "it"), source="user"),
        "a": Backend(name="a", argv=("x",), source="me"),
    }
    host.show_backends(Known(backends=known, default="a", ignored=("c: no command",)))
    said = capsys.readouterr()
    assert said.out.splitlines() == [f"* {'a':20} {'me':12} x", f"  {'b':20} {'user':12} run it"]
    assert said.err == "  ignored: c: no command\n"


def test_a_probe_is_shown_with_what_was_offered_or_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    host.show_probe(Probe(name="b", ok=False, milliseconds=1, error="no such program"))
    assert capsys.readouterr().out == "NO  b: no such program\n"
    restricted = receipts.Restricted(restricted=receipts.ReasonGiven(reason="small"))
    found = Probe(
        name="b",
        ok=True,
        milliseconds=7,
        identity=receipts.BackendIdentity(id="x", backend_version="1"),
        contract_version="abp/v0.1",
        capabilities={"streaming": "native", "vision": restricted},
        notes=("odd",),
    )
    host.show_probe(found)
    assert capsys.readouterr().out.splitlines() == [
        "ok  b: x 1, abp/v0.1, 7 ms",
        f"      {'streaming':32} native",
        f"      {'vision':32} restricted: small",
        "      note: odd",
    ]
    host.show_probe(replace(found, identity=receipts.BackendIdentity(id="x"), capabilities={}, notes=()))
    host.show_probe(replace(found, identity=None, capabilities={}, notes=()))
    assert capsys.readouterr().out == "ok  b: x, abp/v0.1, 7 ms\nok  b: , abp/v0.1, 7 ms\n"


def test_events_are_printed_as_json_without_secrets_also_those_that_are_cut_in_two(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = host.PrintedEvents(Redactor(["correct-horse-battery"]))
    at = SAMPLE_RECEIPT.trace[0].ts
    printed([receipts.AssistantSaid(ts=at, text="it is correct-horse-battery")])
    [line] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["type"], line["text"]) == ("assistant_message", "it is [redacted]")
    printed([receipts.AssistantDelta(ts=at, text=text) for text in ("correct-", "horse-battery", " and on")])
    printed.end()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "".join(line["text"] for line in lines) == "[redacted] and on"
