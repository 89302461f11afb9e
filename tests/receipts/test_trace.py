"""From what was seen to a receipt."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.wire.conversations.sidecar import SAMPLE_ORDER, SAMPLE_RECEIPT
from treadle import __version__
from treadle.errors import BudgetExceeded, Denied, LocalError, PeerExited, PeerStalled, TreadleError, Violation
from treadle.receipts import trace
from treadle.receipts.artifacts import Collected
from treadle.receipts.trace import BIG_EVENT, Check, Observed, Trace, Walls, not_observed, ours, shortened
from treadle.redact import Redactor
from treadle.wire.sidecar.connection import Final, SidecarHello
from treadle.wire.sidecar.receipts import (
    AssistantDelta,
    BackendIdentity,
    CommandExecuted,
    ErrorMet,
    FileWritten,
    Receipt,
    WarningGiven,
    normal,
    receipt_hash,
)
from treadle.wire.sidecar.repair import Deviation
from treadle.workspace.changes import PathChange
from treadle.workspace.merge import Merged
from treadle.workspace.workspace import Difference

RUN = "550e8400-e29b-41d4-a716-446655440000"
T = "2025-01-01T00:00:00Z"


def observed(outcome: Any = "complete", **claim: Any) -> Observed:
    seen = Observed(RUN, SAMPLE_ORDER, "backend", 1_700_000_000.0)
    seen.finished = seen.started + 1.5
    seen.handshaking = False
    if outcome is not None:
        seen.final = Final(ref_id=RUN, receipt=replace(SAMPLE_RECEIPT, outcome=outcome, **claim))
    return seen


def made(seen: Observed) -> tuple[Receipt, dict[str, Any]]:
    receipt = seen.receipt(Redactor(["hunter2-secret"]))
    return receipt, ours(receipt)


@pytest.mark.parametrize(
    ("claimed", "error", "stopped", "check", "outcome"),
    [
        ("complete", None, None, None, "complete"),
        ("complete", None, None, 0, "complete"),
        ("complete", None, None, 1, "partial"),
        ("partial", None, None, 0, "partial"),
        ("failed", None, None, 0, "failed"),
        ("complete", None, BudgetExceeded("x"), None, "partial"),
        ("complete", None, Denied("x"), None, "failed"),
        ("complete", LocalError("x"), None, None, "failed"),
        (None, PeerExited("it", 3), None, None, "failed"),
    ],
)
def test_the_outcome_is_never_better_than_what_was_seen(
    claimed: str | None, error: TreadleError | None, stopped: TreadleError | None, check: int | None, outcome: str
) -> None:
    seen = observed(claimed)
    seen.error, seen.stopped = error, stopped
    seen.check = Check(command="c", exit_code=check) if check is not None else None
    receipt, more = made(seen)
    assert receipt.outcome == outcome
    assert receipt.meta.duration_ms == 1500
    assert (more["claimed"] is None) == (claimed is None)
    assert isinstance(receipt.trace[-1] if receipt.trace else None, ErrorMet) == bool(error or stopped)


def test_claims_and_facts_are_compared_by_file() -> None:
    seen = observed()
    root = SAMPLE_ORDER.workspace.root
    seen.trace.extend(
        [FileWritten(ts=T, path="both.txt", summary=""), FileWritten(ts=T, path="./said.txt", summary="")]
    )
    changes = (PathChange(kind="added", path="both.txt"), PathChange(kind="renamed", path="new", old_path="old"))
    seen.difference = Difference(after="x", changes=changes, patch=b"\xff diff", status="A  both.txt")
    receipt, more = made(seen)
    assert root == "." and more["differences"] == [
        "its receipt leaves out events that it sent: 2 file_changed",
        "said that it changed said.txt, which did not change",
        "changed new and did not say so",
        "changed old and did not say so",
    ]
    assert "diff" in (receipt.verification.git_diff or "")


def test_secrets_and_broken_text_do_not_get_in_and_ids_stay() -> None:
    seen = observed(usage_raw={"key": "hunter2-secret"})
    seen.trace.extend([WarningGiven(ts=T, message="the key is hunter2-secret")])
    seen.difference = Difference(after="x", changes=(), patch=b"", status="A  caf\udce9")
    receipt, _ = made(seen)
    text = str(receipt)
    assert "hunter2" not in text and "[redacted]" in text and receipt.meta.run_id == RUN
    assert receipt_hash(normal(receipt))


def test_notes_are_bounded_and_big_values_cut() -> None:
    seen = observed()
    seen.notes = [Deviation(where=str(number), problem="p", value="x" * 5000) for number in range(500)]
    _, more = made(seen)
    assert len(more["notes"]) == 200 and more["notes_left_out"] == 300
    assert len(more["notes"][0]["value"]) <= 2000


def test_a_trace_keeps_the_beginning_and_the_end() -> None:
    trace = Trace(keep=10)
    for number in range(2000):
        trace.extend([AssistantDelta(ts=T, text=str(number))])
    events = trace.events(T)
    assert trace.seen == 2000 and trace.left_out == 2000 - 510
    assert [event.text for event in events[:10]] == [str(number) for number in range(10)]  # type: ignore[union-attr]
    assert isinstance(events[10], WarningGiven) and events[-1].text == "1999"  # type: ignore[union-attr]
    one = Trace(keep=10)
    one.extend([AssistantDelta(ts=T, text=str(number)) for number in range(2000)])
    assert one.events(T) == events


def test_huge_events_and_a_huge_trace_do_not_fill_the_memory() -> None:
    trace = Trace(keep_bytes=1_000_000)
    huge = AssistantDelta(ts=T, text="x" * 200_000)
    for _ in range(100):
        trace.extend([huge, AssistantDelta(ts=T, text="small")], 200_100)
    events = trace.events(T)
    assert len(events) == 200 and sum(len(str(event)) for event in events) < 100_000
    assert "200" in str(events[0]) and events[1].text == "small"  # type: ignore[union-attr]
    long = Trace(keep_bytes=1000)
    for number in range(2000):
        long.extend([AssistantDelta(ts=T, text=str(number))], 50)
    assert len(long.events(T)) == 20 + 1 + 500


def test_a_sidecars_own_hash_is_checked_and_only_told() -> None:
    right = receipt_hash(normal(SAMPLE_RECEIPT))
    assert made(observed(receipt_sha256=right))[1]["claimed"]["sha256_matches"] is True
    assert made(observed(receipt_sha256="0" * 64))[1]["claimed"]["sha256_matches"] is False
    assert made(observed())[1]["claimed"]["sha256_matches"] is None


def test_what_we_know_ourselves_makes_a_receipt_when_what_was_said_does_not() -> None:
    seen = observed()
    seen.exit_code = 3
    receipt, more = made(seen.without_its_words(KeyError("odd")))
    assert receipt.outcome == "failed" and receipt.meta.run_id == RUN
    assert (more["end"]["exit_code"], more["end"]["error_code"]) == (3, "internal") and "odd" in more["end"]["message"]


def test_the_last_error_that_the_agent_reports_is_its_reason_unless_it_calls_itself_complete() -> None:
    for outcome, said in (("failed", "the second hunter2"), ("partial", "the second hunter2"), ("complete", None)):
        seen = observed(outcome)
        seen.trace.extend([ErrorMet(ts=T, message=text) for text in ("the first", "the second hunter2")])
        found = made(seen)[1]["end"]["said"]
        assert (found and found["message"]) == said
    assert made(observed("failed"))[1]["end"]["said"] is None


def test_what_was_ordered_seen_and_enforced_is_all_in_the_receipt() -> None:
    seen = observed(mode="passthrough", usage_raw=[1])
    seen.hello = SidecarHello(
        contract_version="abp/v0.1", backend=BackendIdentity(id="b"), capabilities={"streaming": "native"}
    )
    seen.trace.extend([CommandExecuted(ts=T, command="make"), FileWritten(ts="when?", path="./a", summary="")])
    seen.notes = [
        Deviation(where="hello.capabilities.telepathy", problem="unknown capability", value="native"),
        Deviation(where="event.x.later", problem="unknown capability", value=1),
        Deviation(where="hello.y", problem="missing", value=None),
    ]
    seen.command, seen.order_path, seen.stderr_tail = ("x", "--y"), "/o", "e" * 4001
    seen.workspace, seen.merged, seen.resumed = {"base_commit": "c", "base_tree": "t"}, Merged(written=("a",)), True
    seen.walls = Walls(method="bubblewrap", covers="agent", network="off")
    seen.enforcement, seen.unmet = {"deny_read": "kernel", "deny_write": "guard"}, ["vision"]
    seen.attempts, seen.commands_seen, seen.exit_code = [{"run_id": "r", "agent": "a", "outcome": "failed"}], ("sh",), 0
    seen.check, seen.patch_path = Check(command="true", exit_code=0, output_tail="fine"), "/p"
    seen.artifacts = [
        Collected(kind="log", path="l", problem="it is not there"),
        Collected(kind="log", path="m", copy="/m"),
    ]
    changes = (PathChange(kind="added", path="a"),)
    seen.difference = Difference(after="x", changes=changes, patch=b"+1", status="A  a", hidden=("h",) * 201)
    receipt, more = made(seen)
    assert receipt.backend == BackendIdentity(id="b") and receipt.capabilities == {"streaming": "native"}
    assert receipt.mode == "passthrough" and receipt.usage == SAMPLE_RECEIPT.usage
    assert receipt.usage_raw["claimed"] == [1] and receipt.verification.harness_ok
    assert [(one.kind, one.path) for one in receipt.artifacts] == [("log", "l"), ("log", "/m"), ("patch", "/p")]
    written = receipt.trace[1]
    assert written.ts == receipt.meta.finished_at and written.ext == {"ts": "when?"} and receipt.trace[0].ts == T
    assert (receipt.meta.started_at, receipt.meta.finished_at) == ("2023-11-14T22:13:20Z", "2023-11-14T22:13:21.500Z")
    order = SAMPLE_ORDER
    assert more["order"] == {
        **{"task": order.task, "lane": order.lane, "model": "m-1", "agent": "backend", "command": ["x", "--y"]},
        **{"context": ["README.md"], "include": ["src/**"], "exclude": ["target/**"], "max_turns": 8},
        **{"max_budget_usd": 1.5, "base_commit": "c", "base_tree": "t", "stored": "/o"},
    }
    assert more["end"] == {
        **{"by": "final", "code": None, "error_code": None, "message": None, "said": None, "cancelled_because": None},
        **{"exit_code": 0, "stderr_tail": "e" * 4000},
    }
    found = more["observed"]
    assert found["files"][0]["path"] == "a" and (len(found["hidden"]), found["hidden_left_out"]) == (200, 1)
    assert found["check"] == {"command": "true", "exit_code": 0, "output_tail": "fine", "setup": "", "ok": True}
    assert (found["processes_seen"], found["events"], found["events_left_out"]) == (["sh"], 2, 0)
    assert (found["oddities"], found["permissions"], found["patch_lines_redacted"]) == ([], [], 0)
    assert more["claimed"]["files"] == ["a"] and more["claimed"]["commands"] == ["make"]
    assert (more["format"], more["host"]) == (2, f"treadle {__version__}")
    assert more["unmet_requirements"] == ["vision"] and more["unknown_capabilities"] == {"telepathy": "native"}
    assert more["policy"] == {
        "rules": msgspec.to_builtins(order.policy),
        "enforced": "guard",
        "lists": {"deny_read": "kernel", "deny_write": "guard"},
        "best_effort": False,
    }
    assert (len(more["notes"]), more["notes_left_out"], more["resumed_after_crash"]) == (3, 0, True)
    assert more["confinement"]["method"] == "bubblewrap" and more["earlier_attempts"] == seen.attempts
    assert more["workspace"]["base_tree"] == "t" and more["workspace"]["applied"]["written"] == ["a"]
    assert more["artifacts"][2]["bytes"] == 2
    assert "its receipt is by my-sidecar, and b said hello" in more["differences"]
    assert "named l, and it is not there" in more["differences"]


def test_what_was_not_said_or_seen_is_not_made_up() -> None:
    receipt, more = made(observed(None))
    assert receipt.backend == BackendIdentity(id="backend") and receipt.capabilities == {} and receipt.mode == "mapped"
    assert (
        receipt.usage.input_tokens is None and receipt.verification.git_diff is receipt.verification.git_status is None
    )
    assert receipt.artifacts == [] and not receipt.verification.harness_ok and "claimed" not in receipt.usage_raw
    assert more["order"]["command"] is None and more["end"]["by"] == "error" and more["end"]["stderr_tail"] is None
    found = more["observed"]
    assert [found[name] for name in ("files", "hidden", "oddities", "permissions", "processes_seen", "check")] == [
        None
    ] * 6
    assert (found["hidden_left_out"], found["oddities_left_out"], found["permissions_left_out"]) == (0, 0, 0)
    assert (more["policy"]["enforced"], more["policy"]["lists"], more["confinement"]) == (None, None, None)
    assert not more["resumed_after_crash"] and more["claimed"] is None and more["differences"] == []
    nothing = observed(None)
    nothing.enforcement, nothing.patch_path = {}, "/p"
    nothing.hello = SidecarHello(
        contract_version="abp/v0.1", backend=BackendIdentity(id=""), capabilities={}, mode="passthrough"
    )
    receipt, more = made(nothing)
    assert more["policy"]["enforced"] == "observed" and receipt.backend.id == "backend" and receipt.artifacts == []
    assert receipt.mode == "passthrough"


@pytest.mark.parametrize(("asked", "given"), [(True, True), ("yes", False), (None, False)])
def test_a_policy_may_be_asked_for_as_well_as_it_can_be_enforced(asked: Any, given: bool) -> None:
    for vendor in ({"abp": {"best_effort_policy": asked}}, {"abp": "best_effort_policy"}):
        order = replace(SAMPLE_ORDER, config=replace(SAMPLE_ORDER.config, vendor=vendor))
        assert trace.best_effort(order) is (given and isinstance(vendor["abp"], dict))


@pytest.mark.parametrize(
    ("error", "handshaking", "stopped", "code"),
    [
        (PeerStalled("x"), True, None, "protocol_handshake_failed"),
        (Violation("x"), True, None, "protocol_handshake_failed"),
        (Violation("x"), False, None, "protocol_unexpected_message"),
        (PeerExited("it", 3), True, None, "backend_crashed"),
        (PeerStalled("x"), True, PeerStalled("why"), "backend_timeout"),
    ],
)
def test_what_fails_before_the_hello_is_a_failed_handshake(
    error: TreadleError, handshaking: bool, stopped: TreadleError | None, code: str
) -> None:
    seen = observed(None)
    seen.error, seen.handshaking, seen.stopped = error, handshaking, stopped
    receipt, more = made(seen)
    assert more["end"]["error_code"] == code and more["end"]["code"] == error.code
    assert more["end"]["message"] == (f"why; {error}" if stopped else str(error))
    assert more["end"]["cancelled_because"] == (str(stopped) if stopped else None)
    (event,) = receipt.trace
    assert isinstance(event, ErrorMet) and event.error_code == code and event.message == more["end"]["message"]
    exited = {"exit_code": 3} if isinstance(error, PeerExited) else {}
    assert event.ext == {"observed_by": "treadle", "code": error.code, **exited}


def test_an_event_and_a_patch_are_shortened_only_beyond_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = len(msgspec.json.encode(AssistantDelta(ts=T, text="")))
    largest = AssistantDelta(ts=T, text="x" * (BIG_EVENT - frame))
    assert shortened(largest) is largest
    cut = shortened(AssistantDelta(ts=T, text=largest.text + "x"))
    assert isinstance(cut, WarningGiven) and cut.message == f"an event of {BIG_EVENT + 1} bytes is left out"
    assert cut.ts == T and len(cut.ext["begins"]) == 200
    kept = Trace()
    kept.extend([largest, cut], BIG_EVENT)
    assert kept.events(T) == [largest, cut] and kept.left_out == 0
    monkeypatch.setattr(trace, "DIFF_CAP", 10)
    for length, end in ((10, ""), (11, "\n[1 more characters are in /p]\n")):
        seen = observed()
        seen.patch_path = "/p"
        seen.difference = Difference(after="x", changes=(), patch=b"x" * length, status="")
        assert made(seen)[0].verification.git_diff == "x" * 10 + end


def test_a_trace_remembers_what_was_reported_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_REPORTED", 2)
    seen = observed()
    for name in "abc":
        seen.trace.extend([FileWritten(ts=T, path=name, summary=""), CommandExecuted(ts=T, command=name)])
    assert (list(seen.trace.files), list(seen.trace.commands)) == (["a", "b"], ["a", "b"])
    changes = tuple(PathChange(kind="added", path=name) for name in "abc")
    seen.difference = Difference(after="x", changes=changes, patch=b"", status="")
    assert any("so many files that 1 changed ones" in text for text in made(seen)[1]["differences"])


def test_differences_are_bounded_and_a_check_that_failed_is_held_against_the_word_given() -> None:
    seen = observed()
    seen.check = Check(command="make", exit_code=None)
    assert made(seen)[1]["differences"] == ["said that the checks passed, and 'make' did not"]
    seen.artifacts = [Collected(kind="log", path=str(number), problem="no") for number in range(200)]
    found = made(seen)[1]["differences"]
    assert len(found) == 201 and found[-1] == "and 1 more"
    seen.check = Check(command="make", exit_code=0)
    assert len(made(seen)[1]["differences"]) == 200


def test_what_was_not_looked_at_is_named() -> None:
    always = [*trace.NEVER_OBSERVED]
    network, outside = "what was sent over the network", "files outside the workspace"
    whole = Difference(after="x", changes=(), patch=b"", status="", hidden=())
    walls = Walls(method="m", covers="agent", network="off")
    assert not_observed(walls, whole) == always
    assert not_observed(None, None) == [*always, "what was changed in the workspace", outside, network]
    assert not_observed(walls, replace(whole, hidden=None)) == [*always, "ignored files and .git"]
    for other in (
        replace(walls, network="on"),
        replace(walls, hosts=("a",)),
        replace(walls, network="off for commands"),
    ):
        assert not_observed(other, whole) == [*always, network]


def test_our_own_words_stay_when_the_agents_make_no_receipt() -> None:
    seen = observed()
    seen.workspace, seen.patch_path, seen.command, seen.order_path = {"mode": "staged"}, "/p", ("x",), "/o"
    seen.difference = Difference(after="x", changes=(), patch=b"+", status="A")
    seen.trace.extend([WarningGiven(ts=T, message="secret")])
    receipt, more = made(seen.without_its_words(KeyError("odd")))
    assert (
        more["workspace"]["mode"] == "staged" and more["order"]["stored"] == "/o" and more["order"]["command"] == ["x"]
    )
    assert receipt.verification.git_status == "A" and receipt.artifacts[0].path == "/p" and len(receipt.trace) == 1
    assert receipt.meta.duration_ms == 1500 and more["claimed"] is None
    assert more["end"]["message"] == "the sidecar's output makes no valid receipt: KeyError: 'odd'"


def test_a_secret_that_came_in_pieces_is_removed_and_lines_of_the_patch_are_counted() -> None:
    seen = observed()
    seen.trace.extend([AssistantDelta(ts=T, text=text) for text in ("a hunter2", "-secret b")])
    seen.trace.extend([WarningGiven(ts=T, message="between"), AssistantDelta(ts=T, text="c")])
    patch = b"+one\n+hunter2-secret\n+three\n"
    seen.difference = Difference(after="x", changes=(), patch=patch, status="A  hunter2-secret")
    receipt, more = made(seen)
    texts = [event.text for event in receipt.trace if isinstance(event, AssistantDelta)]
    assert "".join(texts[:2]) == "a [redacted] b" and texts[2] == "c"
    assert (
        receipt.verification.git_diff == "+one\n+[redacted]\n+three\n" and more["observed"]["patch_lines_redacted"] == 1
    )
    assert receipt.verification.git_status == "A  [redacted]"
