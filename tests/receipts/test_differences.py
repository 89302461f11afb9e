"""What is claimed beside what was seen."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.wire.conversations.sidecar import SAMPLE_RECEIPT
from treadle.receipts import trace
from treadle.wire.sidecar import receipts
from treadle.workspace.changes import PathChange
from treadle.workspace.workspace import Difference

T, LATER = "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
RUN, ORDER = SAMPLE_RECEIPT.meta.run_id, SAMPLE_RECEIPT.meta.work_order_id
OTHER = "00000000-0000-4000-8000-00000000000a"
PATCH = """\
diff --git a/one.txt b/one.txt
--- a/one.txt
+++ b/one.txt
@@ -1 +1 @@
-old
+new
"""
SEEN = Difference(after="x", changes=(PathChange(kind="modified", path="one.txt"),), patch=PATCH.encode(), status="")


def command(text: str, ts: str = T) -> receipts.AnyAgentEvent:
    return receipts.CommandExecuted(ts=ts, command=text)


def test_a_receipt_of_another_run_order_or_program_is_named() -> None:
    backend = SAMPLE_RECEIPT.backend.id
    assert list(trace.about_identity(SAMPLE_RECEIPT, RUN.upper(), ORDER, backend)) == []
    about = replace(SAMPLE_RECEIPT.meta, run_id=OTHER, work_order_id="nonsense")
    lie = replace(SAMPLE_RECEIPT, meta=about, backend=receipts.BackendIdentity(id="better"))
    assert list(trace.about_identity(lie, RUN, ORDER, backend)) == [
        f"its receipt is about the run {OTHER}, and this is {RUN}",
        f"its receipt is about the order nonsense, and this is {ORDER}",
        f"its receipt is by better, and {backend} said hello",
    ]


@pytest.mark.parametrize(
    ("claimed", "sent", "says"),
    [
        ([], [command("a")], []),
        ([command("a", LATER)], [command("a")], []),
        ([receipts.RunCompleted(ts=T, message="done")], [receipts.AssistantDelta(ts=T, text="t")], []),
        (
            [command("a"), command("a"), receipts.WarningGiven(ts=T, message="w")],
            [command("a")],
            ["its receipt has events that it never sent: 1 command_executed, 1 warning"],
        ),
        (
            [command("a")],
            [command("a"), command("rm -rf /")],
            ["its receipt leaves out events that it sent: 1 command_executed"],
        ),
        ([command("a")], None, []),
        ([command("a")] * 2, None, []),
        ([command("a")] * 3, None, ["its receipt has 3 events, and it sent 2"]),
    ],
)
def test_its_trace_is_compared_with_what_it_sent(claimed: Any, sent: Any, says: list[str]) -> None:
    assert list(trace.about_trace(replace(SAMPLE_RECEIPT, trace=claimed), sent, 2)) == says


def test_files_are_compared_both_ways_unless_not_all_that_it_said_is_known() -> None:
    assert list(trace.about_files({"one.txt"}, SEEN, complete=True)) == []
    assert list(trace.about_files({"two"}, SEEN, complete=True)) == [
        "said that it changed two, which did not change",
        "changed one.txt and did not say so",
    ]
    (unknown,) = trace.about_files(set(), SEEN, complete=False)
    assert unknown == "it reported so many files that 1 changed ones could not be compared with its word"
    assert list(trace.about_files({"one.txt"}, SEEN, complete=False)) == []
    moved = replace(SEEN, changes=(PathChange(kind="renamed", path="new", old_path="old"),))
    assert list(trace.about_files({"new"}, moved, complete=True)) == ["changed old and did not say so"]


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        (None, []),
        ("", []),
        ("+names no file\n", []),
        (PATCH.replace("-old\n", ""), []),
        (PATCH, []),
        (PATCH.replace("one.txt", "two.txt"), ["its patch changes two.txt, which did not change"]),
        (PATCH.replace("+new", "+other"), ["its patch has lines that are not in the workspace"]),
        (PATCH.replace("@@ -1 +1 @@", "@@ -1,1 +1,1 @@ def f():"), []),
    ],
)
def test_its_own_patch_is_compared_with_ours(patch: str | None, says: list[str]) -> None:
    claim = replace(SAMPLE_RECEIPT, verification=receipts.Verification(harness_ok=True, git_diff=patch))
    assert list(trace.about_patch(claim, SEEN)) == says


def test_what_it_says_is_recorded_with_whether_its_hash_fits() -> None:
    said = trace.claims(SAMPLE_RECEIPT, ["f"] * 201, ["c"] * 201)
    assert said == {
        "outcome": "complete",
        "run_id": RUN,
        "work_order_id": ORDER,
        "backend": "my-sidecar",
        "harness_ok": True,
        "trace_events": 2,
        "files": ["f"] * 200,
        "commands": ["c"] * 200,
        "sha256": None,
        "sha256_matches": None,
    }
    good = receipts.receipt_hash(receipts.normal(SAMPLE_RECEIPT))
    nonsense = replace(SAMPLE_RECEIPT, meta=replace(SAMPLE_RECEIPT.meta, run_id="nonsense"))
    for claim, sha256, matches in (
        (SAMPLE_RECEIPT, good, True),
        (SAMPLE_RECEIPT, "0" * 64, False),
        (nonsense, good, False),
    ):
        said = trace.claims(replace(claim, receipt_sha256=sha256), [], [])
        assert (said["sha256"], said["sha256_matches"]) == (sha256, matches)
    assert list(trace.about_identity(SAMPLE_RECEIPT, RUN, ORDER, None)) == []


def test_paths_are_relative_to_the_workspace() -> None:
    assert trace.relative(["/w/a", "./b", "c/../a", "/x"], "/w") == ["a", "b", "../x"]
