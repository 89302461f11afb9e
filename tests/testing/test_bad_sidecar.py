"""The probe matrix: everything that a sidecar can do wrong, against the real control plane.

Each has its typed error or none, its outcome, its code in the contract's words, a receipt on disk, and no process left.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.host.conftest import PINGING, QUICK, order, run, scripted, source, store  # noqa: F401
from tests.stand_ins import bad_sidecar
from tests.tiers import spread
from treadle.errors import (
    BudgetExceeded,
    Denied,
    InvalidJson,
    LineTooLong,
    PeerClosed,
    PeerExited,
    PeerFatal,
    PeerStalled,
    TimedOut,
    VersionMismatch,
    Violation,
)
from treadle.host.job import Job
from treadle.receipts.trace import ours
from treadle.session import Confinement
from treadle.wire.sidecar.connection import NO_POLICY
from treadle.wire.sidecar.receipts import ErrorMet, Receipt

UNCONFINED = Confinement(use="off")
"""The sandbox holds the output open as long as it lives: there a closed output is only silence."""
HANDSHAKE = "protocol_handshake_failed"
LINE = "protocol_invalid_envelope"
UNEXPECTED = "protocol_unexpected_message"
VERSION = "protocol_version_mismatch"
RECEIPT = "contract_invalid_receipt"

REFUSED: dict[str, tuple[type[Exception], str | None]] = {
    "blank_before_hello": (InvalidJson, HANDSHAKE),
    "log_before_hello": (InvalidJson, HANDSHAKE),
    "bom_before_hello": (InvalidJson, HANDSHAKE),
    "event_before_hello": (Violation, HANDSHAKE),
    "unknown_before_hello": (Violation, HANDSHAKE),
    "fatal_instead_of_hello": (Violation, HANDSHAKE),
    "hello_in_an_array": (Violation, HANDSHAKE),
    "hello_without_version": (VersionMismatch, VERSION),
    "hello_without_backend": (Violation, HANDSHAKE),
    "hello_without_capabilities": (Violation, HANDSHAKE),
    "other_major_version": (VersionMismatch, VERSION),
    "version_is_nonsense": (VersionMismatch, VERSION),
    "exit_before_hello": (PeerExited, "backend_crashed"),
    "exit_after_hello": (PeerExited, "backend_crashed"),
    "event_before_run": (Violation, UNEXPECTED),
    "not_json": (InvalidJson, LINE),
    "not_a_number": (InvalidJson, LINE),
    "invalid_utf8": (InvalidJson, LINE),
    "too_deep": (InvalidJson, LINE),
    "line_of_20_mb": (LineTooLong, LINE),
    "ping": (Violation, UNEXPECTED),
    "run_echoed": (Violation, UNEXPECTED),
    "wrong_ref_on_event": (Violation, UNEXPECTED),
    "wrong_ref_on_final": (Violation, UNEXPECTED),
    "wrong_ref_on_fatal": (Violation, UNEXPECTED),
    "no_ref_on_event": (Violation, UNEXPECTED),
    "event_that_is_also_a_final": (Violation, UNEXPECTED),
    "final_without_a_receipt": (Violation, RECEIPT),
    "empty_receipt": (Violation, RECEIPT),
    "receipt_is_text": (Violation, RECEIPT),
    "receipt_without_an_outcome": (Violation, RECEIPT),
    "receipt_without_a_verification": (Violation, RECEIPT),
    "receipt_with_ids_that_are_none": (Violation, RECEIPT),
    "outcome_is_unknown": (Violation, RECEIPT),
    "fatal": (PeerFatal, "backend_auth_failed"),
    "fatal_without_ref": (PeerFatal, None),
    "fatal_with_unknown_code": (PeerFatal, None),
    "exit_without_final": (PeerExited, "backend_crashed"),
    "clean_exit_without_final": (PeerExited, "backend_crashed"),
    "killed": (PeerExited, "backend_crashed"),
    "killed_at_work": (PeerExited, "backend_crashed"),
    "exit_inside_a_line": (PeerExited, "backend_crashed"),
    "exit_with_an_orphan_on_its_output": (PeerExited, "backend_crashed"),
    "output_closed": (PeerClosed, "stream_closed"),
    "answers_pings_and_then_stops": (PeerStalled, "backend_timeout"),
}
TAKEN: dict[str, str | None] = {
    "good": None,
    "reports_no_usage": None,
    "other_minor_version": None,
    "unknown_capability": "hello.capabilities.telepathy: unknown capability",
    "unknown_support_level": "hello.capabilities.streaming: unknown support level",
    "mode_is_null": None,
    "mode_is_unknown": "hello.mode",
    "unknown_fields": "final.receipt.stream_equivalent: not in the contract",
    "blank_line": None,
    "unknown_message": "progress: unknown kind of message",
    "pong_that_was_not_asked_for": "pong: no one asked for it",
    "hello_again": "hello: sent again",
    "unknown_event": "event.event: unknown event type 'usage'",
    "unknown_error_code": "event.event.error_code",
    "half_a_surrogate_pair": "line: half a surrogate pair was replaced",
    "time_is_nonsense": None,
    "time_is_out_of_range": None,
    "path_is_none": None,
    "windows_line_ends": None,
    "input_closed": None,
    "final_without_newline": None,
    "final_twice": None,
    "talk_after_final": None,
    "no_exit_after_final": None,
    "orphans_after_final": None,
    "receipt_with_other_ids": None,
    "wrong_hash": None,
    "negative_usage": "final.receipt.usage.input_tokens",
    "names_artifacts": None,
    "says_its_task": None,
    "says_what_it_did_not_do": None,
    "does_what_it_does_not_say": None,
    "runs_its_task_and_does_not_say_so": None,
    "answers_pings_only_after_the_run": None,
    "noisy_on_stderr": None,
}
OWN_TEST = {
    "no_hello",
    "no_hello_and_deaf",
    "half_a_hello",
    "output_closed_before_hello",
    "hang",
    "hang_and_deaf",
    "spin",
    "calls_a_denied_tool",
    "calls_a_denied_tool_and_goes_on",
    "changes_a_denied_file",
    "spends_too_much",
    "stops_when_cancelled",
    "fatal_when_cancelled",
    "says_it_failed",
    "good_and_then_hangs",
    "works_for_a_while",
    "flood",
}

Runner = Callable[..., Any]


def more(receipt: Receipt) -> dict[str, Any]:
    return ours(receipt)


def test_every_act_is_tried() -> None:
    assert set(REFUSED) | set(TAKEN) | OWN_TEST == set(bad_sidecar.ACTS)
    assert len(bad_sidecar.ACTS) > 40


@pytest.mark.parametrize("act", spread(REFUSED, quick=0, slow=20))
async def test_what_ends_a_run_is_a_typed_error_and_a_failed_receipt(act: str, run: Runner) -> None:  # noqa: F811
    error, code = REFUSED[act]
    receipt, host = await run(act)
    assert type(host.observed.error) is error
    assert receipt.outcome == "failed"
    assert more(receipt)["end"]["error_code"] == code
    assert isinstance(receipt.trace[-1], ErrorMet)


@pytest.mark.parametrize("act", [act for act, (_, code) in REFUSED.items() if code == RECEIPT])
async def test_a_final_without_a_whole_receipt_claims_nothing_and_is_not_applied(
    act: str,
    run: Runner,  # noqa: F811
    source: Path,  # noqa: F811
) -> None:
    receipt, host = await run(act, apply=True)
    assert more(receipt)["claimed"] is None and host.observed.merged is None
    assert more(receipt)["end"]["by"] == "error"


@pytest.mark.parametrize("act", spread(TAKEN, quick=0, slow=15))
async def test_what_can_be_understood_is_taken_and_noted(act: str, run: Runner) -> None:  # noqa: F811
    note = TAKEN[act]
    # Its network is chosen: otherwise a sandbox notes that it reaches every host, where there is one.
    receipt, host = await run(act, confinement=Confinement(use="possible", network="on"))
    assert host.observed.error is None
    assert receipt.outcome == "complete"
    heard = [entry for entry in more(receipt)["notes"] if entry["where"] != "sandbox"]  # that is about our own walls
    said = [f"{entry['where']}: {entry['problem']}" for entry in heard]
    assert any(line.startswith(note) for line in said) if note else said == []


async def test_the_exit_code_and_the_last_words_are_kept(run: Runner) -> None:  # noqa: F811
    receipt, host = await run("exit_without_final")
    assert more(receipt)["end"]["exit_code"] == 3
    assert "out of memory" in more(receipt)["end"]["stderr_tail"]
    assert "out of memory" in str(host.observed.error)
    assert len(receipt.trace) == 2, "what it said before is kept"
    receipt, host = await run("exit_before_hello")
    assert more(receipt)["end"]["exit_code"] == 7 and "cannot find module" in str(host.observed.error)
    receipt, _ = await run("killed", confinement=UNCONFINED)
    assert more(receipt)["end"]["exit_code"] == -9
    receipt, _ = await run("killed", confinement=Confinement(use="on"))
    assert more(receipt)["end"]["exit_code"] == 128 + 9, "as the sandbox says it"


@pytest.mark.parametrize("act", ["no_hello", "no_hello_and_deaf", "half_a_hello", "output_closed_before_hello"])
async def test_without_a_hello_in_time_nothing_is_left(act: str, run: Runner) -> None:  # noqa: F811
    closes = act.startswith("output")
    timing = QUICK if closes else replace(QUICK, handshake=0.5)
    receipt, host = await run(act, timing=timing)
    assert type(host.observed.error) is (PeerClosed if closes else PeerStalled)
    assert more(receipt)["end"]["error_code"] in (HANDSHAKE, "stream_closed")


@pytest.mark.parametrize("act", ["hang", "hang_and_deaf"])
async def test_one_that_never_answered_a_ping_is_stalled_when_it_is_silent_and_idle(act: str, run: Runner) -> None:  # noqa: F811
    receipt, host = await run(act, timing=replace(QUICK, quiet=0.8))
    assert type(host.observed.error) is PeerStalled and "no CPU" in str(host.observed.error)
    assert more(receipt)["end"]["error_code"] == "backend_timeout"


@pytest.mark.slow
async def test_one_that_works_without_a_word_is_not_stalled(run: Runner) -> None:  # noqa: F811
    receipt, host = await run("spin", timing=replace(QUICK, quiet=2.0), timeout=6.0)
    assert more(receipt)["end"]["cancelled_because"].startswith("the run did not end within 6 s")


async def test_a_strict_host_takes_every_unanswered_ping_for_a_stall(run: Runner) -> None:  # noqa: F811
    _, host = await run("spin", timing=replace(PINGING, strict_pong=True))
    assert type(host.observed.error) is PeerStalled and "not answered" in str(host.observed.error)
    _, host = await run("answers_pings_only_after_the_run", timing=replace(PINGING, strict_pong=True))
    assert type(host.observed.error) is PeerStalled


async def test_a_partial_receipt_in_answer_to_cancel_counts(run: Runner) -> None:  # noqa: F811
    receipt, host = await run("stops_when_cancelled", stop=TimedOut("enough"), timing=replace(QUICK, cancel_grace=60))
    assert host.observed.error is None and receipt.outcome == "partial"
    assert more(receipt)["end"]["code"] == "timeout" and receipt.usage.input_tokens == 3


async def test_a_run_that_takes_too_long_is_cancelled(run: Runner) -> None:  # noqa: F811
    receipt, host = await run("hang", timeout=3)
    assert type(host.observed.stopped) is TimedOut and receipt.outcome == "failed"


async def test_a_fatal_in_answer_to_cancel_is_a_failed_run_that_says_why_it_was_cancelled(run: Runner) -> None:  # noqa: F811
    receipt, host = await run("fatal_when_cancelled", stop=TimedOut("enough"), timing=replace(QUICK, cancel_grace=60))
    assert type(host.observed.error) is PeerFatal and receipt.outcome == "failed"
    assert more(receipt)["end"]["cancelled_because"] == "enough"


async def test_one_that_ignores_cancel_is_ended_after_the_grace(run: Runner) -> None:  # noqa: F811
    receipt, host = await run("hang", stop=TimedOut("enough"))
    assert host.observed.error.code == "cancelled" and receipt.outcome == "failed"


def policed(source: Path, act: str, **lists: list[str]) -> Job:  # noqa: F811
    return Job(order=order(source, policy=replace(NO_POLICY, **lists)), backend=scripted(act), timing=QUICK)  # type: ignore[arg-type]


@pytest.mark.parametrize("act", ["calls_a_denied_tool", "calls_a_denied_tool_and_goes_on"])
async def test_a_denied_tool_cancels_the_run_and_the_receipt_says_why(
    run: Runner,  # noqa: F811
    source: Path,  # noqa: F811
    act: str,
) -> None:
    receipt, host = await run("", policed(source, act, disallowed_tools=["Bash"]))
    assert type(host.observed.stopped) is Denied and receipt.outcome == "failed"
    assert more(receipt)["end"]["error_code"] == "policy_denied"
    assert "disallowed" in more(receipt)["end"]["message"]


async def test_a_denied_path_cancels_the_run(run: Runner, source: Path) -> None:  # noqa: F811
    receipt, host = await run("", policed(source, "changes_a_denied_file", deny_write=["**/.env"]))
    assert type(host.observed.stopped) is Denied and receipt.outcome == "failed"
    assert ".env" in more(receipt)["end"]["cancelled_because"]
    assert "did not stop within 0.5 s" in more(receipt)["end"]["message"]


async def test_spending_more_than_allowed_cancels_the_run(run: Runner, source: Path) -> None:  # noqa: F811
    made = order(source)
    made = replace(made, config=replace(made.config, max_budget_usd=1.0))
    receipt, host = await run("", Job(order=made, backend=scripted("spends_too_much"), timing=QUICK))
    assert type(host.observed.stopped) is BudgetExceeded and receipt.outcome == "partial"


async def test_a_run_that_failed_by_its_own_word_failed(run: Runner) -> None:  # noqa: F811
    receipt, host = await run("says_it_failed")
    assert host.observed.error is None and receipt.outcome == "failed"


async def test_lies_are_told_apart_from_what_was_seen(run: Runner) -> None:  # noqa: F811
    receipt, _ = await run("says_what_it_did_not_do")
    assert more(receipt)["differences"] == ["said that it changed promised.txt, which did not change"]
    assert more(receipt)["claimed"]["commands"] == ["make test"]
    assert more(receipt)["claimed"]["harness_ok"] and not receipt.verification.harness_ok
    receipt, _ = await run("does_what_it_does_not_say")
    assert more(receipt)["differences"] == ["changed secret.txt and did not say so"]
    assert "secret.txt" in (receipt.verification.git_diff or "")


async def test_ids_and_hashes_of_the_sidecar_are_recorded_and_not_trusted(run: Runner) -> None:  # noqa: F811
    receipt, host = await run("receipt_with_other_ids")
    assert more(receipt)["claimed"]["run_id"].endswith("dead") and receipt.meta.run_id == host.run_id
    receipt, _ = await run("wrong_hash")
    assert more(receipt)["claimed"]["sha256"] == "0" * 64
    assert more(receipt)["claimed"]["sha256_matches"] is False and receipt.receipt_sha256 != "0" * 64


async def test_a_flood_is_counted_whole_and_kept_in_part(run: Runner) -> None:  # noqa: F811
    receipt, host = await run("flood")
    assert more(receipt)["observed"]["events"] == 20_000
    assert len(receipt.trace) < 11_000
    events = Path(host.directory) / "events.jsonl"
    # The text that was held back, to find keys that are cut in two, comes as one more piece at the end.
    assert events.read_bytes().count(b"\n") == 20_001


async def test_unknown_things_are_kept(run: Runner) -> None:  # noqa: F811
    receipt, _ = await run("unknown_capability")
    assert more(receipt)["unknown_capabilities"] == {"telepathy": "native"}
    assert receipt.capabilities == {"streaming": "native"}
    receipt, _ = await run("unknown_event")
    assert receipt.trace[0].ext["unknown_event"]["input_tokens"] == 3  # type: ignore[index]
    receipt, _ = await run("time_is_nonsense")
    assert receipt.trace[0].ext == {"ts": "yesterday"}
