"""What is listed as lost is lost, and what is listed as carried is carried."""

from typing import Any, get_args

import pytest

from tests.test_docs import ROOT, made
from treadle import events
from treadle.drivers.card import cards
from treadle.wire.acp.translation import AcpOutgoing
from treadle.wire.codex.translation import AppServerOutgoing, ExecRecords
from treadle.wire.common.losses import NAMES, WIRES
from treadle.wire.sidecar.events import SidecarOutgoing
from treadle.wire.worker.events import WorkerOutgoing
from treadle.wire.worker.versions import NEWEST

ERROR = events.ErrorInfo(code="provider_error", message="down")
TASK = events.Task(id="t", kind="agent", label="t", status="running")
SAMPLES: list[Any] = [
    events.TurnStarted(prompt="go"),
    events.TextDelta(text="a"),
    events.ThinkingDelta(text="a"),
    events.Message(text="whole"),
    events.ToolStarted(call="c", name="bash", kind="execute", command="ls"),
    events.ToolOutput(call="c", text="a"),
    events.ToolEnded(call="c", name="bash", result="a"),
    events.ToolDenied(call="d", name="bash", reason="no"),
    events.Usage(input_tokens=1, output_tokens=1, cost_usd=0.1),
    events.Asked(request="r", kind="permission", text="may I"),
    events.Answered(request="r", decision="allow"),
    events.ContextPruned(messages_pruned=1, tokens_before=2, tokens_after=1),
    events.ContextCompacted(tokens_before=2, tokens_after=1),
    events.ContextHandoff(),
    events.FileChanged(path="/w/a", change="added"),
    events.CommandRun(command="ls", exit_code=0),
    events.Retrying(attempt=1, delay_ms=1, error=ERROR),
    events.ModelRouted(model="m"),
    events.Warned(message="careful"),
    events.TaskChanged(change="started", task_id="t", task=TASK),
    events.TaskGroupChanged(change="created", group=events.TaskGroup(id="g", tasks=("t",), status="running")),
    events.Failed(error=ERROR),
]
ELSEWHERE = {
    "worker": {"Asked", "Failed"},
    "sidecar": {"Usage"},
    "acp": {"Asked", "Failed", "Usage", "FileChanged"},
    "app-server": {"Asked", "Failed", "Usage", "TurnStarted", "CommandRun", "FileChanged"},
    "codex-json": {"Asked", "Failed", "Usage", "CommandRun", "FileChanged", "ToolOutput"},
}
"""Carried by the door itself, beside the translation of events: questions, results, receipts."""


def carried(wire: str, event: Any) -> bool:
    if wire == "worker":
        return bool(WorkerOutgoing(NEWEST, answers=True, warnings=True).translate([event]))
    if wire == "sidecar":
        out = SidecarOutgoing("/w")
        if isinstance(event, events.ToolEnded):
            out.translate(SAMPLES[4])
        return bool(out.translate(event))
    if wire == "app-server":
        server = AppServerOutgoing("t", "u", "/w", lambda args: [])
        if isinstance(event, events.ToolEnded | events.ToolOutput):
            server.notifications(SAMPLES[4])
        return bool(server.notifications(event))
    if wire == "codex-json":
        records = ExecRecords("t")
        if isinstance(event, events.ToolEnded):
            records.lines(SAMPLES[4])
        return bool(records.lines(event))
    acp = AcpOutgoing(lambda args: [])
    if isinstance(event, events.ToolEnded | events.ToolOutput):
        acp.updates(SAMPLES[4])
    return bool(acp.updates(event))


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("wire", list(ELSEWHERE))
def test_a_wire_carries_what_is_not_said_to_be_dropped(wire: str, event: Any) -> None:
    name = type(event).__name__
    loss = WIRES[wire].get(name)
    if name not in ELSEWHERE[wire]:
        assert carried(wire, event) == (loss is None or loss.level != "dropped"), loss


def test_every_event_has_its_sample_and_every_loss_is_of_something_that_exists() -> None:
    kinds = {kind.__name__ for kind in get_args(events.AnyEvent)} - {"Closed", "TurnEnded"}
    assert kinds == {type(event).__name__ for event in SAMPLES}
    for card in cards().values():
        assert card.losses.keys() <= {*NAMES, *(f"{kind}.{field}" for kind, field in _fields())}, card.name
    for wire, losses in WIRES.items():
        assert losses.keys() <= set(NAMES), wire


def _fields() -> list[tuple[str, str]]:
    return [(kind.__name__, field) for kind in get_args(events.AnyEvent) for field in kind.__struct_fields__]


def test_what_each_agent_is_stands_in_the_docs() -> None:
    found = {f"`{card.name}:{card.takes}`" if card.prefix else f"`{card.name}`": card for card in cards().values()}
    ways: dict[str, list[str]] = {}
    for typed, card in found.items():
        told = "" if card.prefix else f" ({' '.join([card.title, *card.recorded])})"
        ways.setdefault(card.how, []).append(typed + told)
    parts = [f"- {', '.join(names)}: {how}\n" for how, names in ways.items()]
    made(ROOT / "docs" / "reference" / "agents.md", "cards", "".join(parts))
