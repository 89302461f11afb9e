"""Sidecar conversations: a run with every kind of event and its receipt, a cancelled one, and runs written ahead."""

from treadle.wire.common.connection import Conversation
from treadle.wire.sidecar import connection, receipts

_RUN = "550e8400-e29b-41d4-a716-446655440000"
_ORDER = "00000000-0000-4000-8000-000000000002"
_TS = "2024-01-15T10:30:00Z"

SAMPLE_ORDER = connection.WorkOrder(
    id=_ORDER,
    task="fix the failing test",
    lane="patch_first",
    workspace=connection.WorkspaceSpec(root=".", mode="staged", include=["src/**"], exclude=["target/**"]),
    context=connection.ContextPacket(
        files=["README.md"], snippets=[connection.Snippet(name="hint", content="look at tokens")]
    ),
    policy=connection.PolicyProfile(
        allowed_tools=["read"],
        disallowed_tools=["bash"],
        deny_read=["**/.env"],
        deny_write=["**/.git/**"],
        allow_network=["*.example.com"],
        deny_network=["evil.example.com"],
        require_approval_for=["write"],
    ),
    requirements=connection.Requirements(
        required=[connection.Requirement(capability="tool_read", min_support="native")]
    ),
    config=connection.RuntimeConfig(
        model="m-1", vendor={"abp": {"mode": "mapped"}}, env={"A": "b"}, max_budget_usd=1.5, max_turns=8
    ),
)
SAMPLE_EVENTS: list[receipts.AnyAgentEvent] = [
    receipts.RunStarted(ts=_TS, message="starting"),
    receipts.AssistantDelta(ts=_TS, text="Hel"),
    receipts.AssistantSaid(ts=_TS, text="Hello"),
    receipts.ToolCalled(ts=_TS, tool_name="read", input={"path": "a.py"}, tool_use_id="c1", parent_tool_use_id=None),
    receipts.ToolReturned(ts=_TS, tool_name="read", output="x = 1", is_error=False, tool_use_id="c1"),
    receipts.FileWritten(ts=_TS, path="a.py", summary="modified"),
    receipts.CommandExecuted(ts=_TS, command="make test", exit_code=0, output_preview="ok"),
    receipts.WarningGiven(ts=_TS, message="slow", ext={"raw_message": {"n": 1}}),
    receipts.ErrorMet(ts=_TS, message="rate limited", error_code="backend_rate_limited"),
    receipts.RunCompleted(ts=_TS, message="done"),
]
SAMPLE_RECEIPT = receipts.Receipt(
    meta=receipts.ReceiptMeta(
        run_id=_RUN,
        work_order_id=_ORDER,
        contract_version=receipts.CONTRACT,
        started_at=_TS,
        finished_at=_TS,
        duration_ms=0,
    ),
    backend=receipts.BackendIdentity(id="my-sidecar", backend_version="1.0.0"),
    capabilities={
        "streaming": "native",
        "tool_read": receipts.Restricted(restricted=receipts.ReasonGiven(reason="small files")),
    },
    mode="mapped",
    usage_raw={"prompt_tokens": 3},
    usage=receipts.UsageTotals(input_tokens=3, output_tokens=4, estimated_cost_usd=0.5),
    trace=SAMPLE_EVENTS[:2],
    artifacts=[receipts.Artifact(kind="patch", path="out.patch")],
    verification=receipts.Verification(harness_ok=True, git_diff="+x", git_status="M a.py"),
    outcome="complete",
)
_HELLO = connection.SidecarHello(
    contract_version=receipts.CONTRACT,
    backend=receipts.BackendIdentity(id="my-sidecar", backend_version="1.0.0"),
    capabilities={"streaming": "native", "tool_read": "emulated"},
)
_OPENING: Conversation = [("sidecar", _HELLO), ("host", connection.Run(id=_RUN, work_order=SAMPLE_ORDER))]

SAMPLES: list[Conversation] = [
    [
        *_OPENING,
        *[("sidecar", connection.RunEvent(ref_id=_RUN, event=event)) for event in SAMPLE_EVENTS],
        ("host", connection.Ping(seq=1)),
        ("sidecar", connection.Pong(seq=1)),
        ("sidecar", connection.Final(ref_id=_RUN, receipt=SAMPLE_RECEIPT)),
    ],
    [
        *_OPENING,
        ("host", connection.CancelRun(ref_id=_RUN, reason="user requested")),
        ("sidecar", connection.Fatal(ref_id=_RUN, error="stopped", error_code="internal")),
        ("host", connection.Run(id=_ORDER, work_order=SAMPLE_ORDER)),
        ("sidecar", connection.Fatal(error="ANTHROPIC_API_KEY not set")),
    ],
    [
        *_OPENING,
        ("host", connection.Run(id=_ORDER, work_order=SAMPLE_ORDER)),
        ("sidecar", connection.Final(ref_id=_RUN, receipt=SAMPLE_RECEIPT)),
        ("sidecar", connection.Final(ref_id=_ORDER, receipt=SAMPLE_RECEIPT)),
        ("sidecar", connection.Fatal(error="out of memory")),
    ],
]
CROSSINGS = [
    (
        _OPENING,
        ("host", connection.CancelRun(ref_id=_RUN)),
        ("sidecar", connection.Final(ref_id=_RUN, receipt=SAMPLE_RECEIPT)),
    ),
    (_OPENING, ("host", connection.Ping(seq=2)), ("sidecar", connection.Fatal(ref_id=_RUN, error="gone"))),
    (
        _OPENING,
        ("host", connection.Run(id=_ORDER, work_order=SAMPLE_ORDER)),
        ("sidecar", connection.Final(ref_id=_RUN, receipt=SAMPLE_RECEIPT)),
    ),
]
