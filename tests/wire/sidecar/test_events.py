"""Our events and the contract's, in both directions."""

import pytest
from msgspec import UNSET

from treadle import events as ours
from treadle.policy.guess import access_of
from treadle.wire.sidecar.events import CODES, SidecarIncoming, SidecarOutgoing, contract_code
from treadle.wire.sidecar.receipts import (
    ERROR_CODES,
    AnyAgentEvent,
    AssistantDelta,
    AssistantSaid,
    CommandExecuted,
    ErrorMet,
    FileWritten,
    RunCompleted,
    RunStarted,
    ToolCalled,
    ToolReturned,
    WarningGiven,
)

T = "1970-01-01T00:00:01Z"
CASES: list[tuple[ours.AnyEvent, list[AnyAgentEvent]]] = [
    (ours.TurnStarted(ts=1.0, prompt="p"), [RunStarted(ts=T, message="started")]),
    (ours.TextDelta(ts=1.0, text="a\ud800"), [AssistantDelta(ts=T, text="a?")]),
    (ours.TextDelta(ts=1.0, text="sub", parent="call_1"), []),
    (ours.ThinkingDelta(ts=1.0, text="hm"), []),
    (ours.Message(ts=1.0, text="whole"), [AssistantSaid(ts=T, text="whole")]),
    (ours.Message(ts=1.0, text="hm", kind="thinking"), []),
    (
        ours.ToolStarted(ts=1.0, call="c", name="bash", args={"command": "ls"}, parent="p"),
        [ToolCalled(ts=T, tool_name="bash", input={"command": "ls"}, tool_use_id="c", parent_tool_use_id="p")],
    ),
    (
        ours.ToolEnded(ts=1.0, call="c", name="bash", result="out", ok=False),
        [ToolReturned(ts=T, tool_name="bash", output="out", is_error=True, tool_use_id="c")],
    ),
    (
        ours.ToolDenied(ts=1.0, call="c", name="bash", reason="no"),
        [
            WarningGiven(ts=T, message="bash was denied: no"),
            ToolReturned(
                ts=T, tool_name="bash", output={"denied": True, "reason": "no"}, is_error=True, tool_use_id="c"
            ),
        ],
    ),
    (ours.FileChanged(ts=1.0, path="/w/a.py", change="added"), [FileWritten(ts=T, path="a.py", summary="added")]),
    (ours.FileChanged(ts=1.0, path="/x/a.py", change="added"), [FileWritten(ts=T, path="/x/a.py", summary="added")]),
    (
        ours.CommandRun(ts=1.0, command="ls", exit_code=1, output="x" * 3000),
        [CommandExecuted(ts=T, command="ls", exit_code=1, output_preview="x" * 2000)],
    ),
    (ours.Warned(ts=1.0, message="w"), [WarningGiven(ts=T, message="w")]),
    (
        ours.Failed(ts=1.0, error=ours.ErrorInfo(code="rate_limited", message="slow down")),
        [ErrorMet(ts=T, message="slow down", error_code="backend_rate_limited")],
    ),
    (ours.TurnEnded(ts=1.0, outcome="completed"), [RunCompleted(ts=T, message="completed")]),
    (ours.Usage(ts=1.0, input_tokens=3), []),
]


@pytest.mark.parametrize(("event", "expected"), CASES, ids=lambda case: type(case).__name__)
def test_each_event_of_ours_is_said_in_the_contracts_words(event: ours.AnyEvent, expected: list[AnyAgentEvent]) -> None:
    assert SidecarOutgoing("/w").translate(event) == expected


def test_totals_go_with_the_next_event_that_is_not_a_delta() -> None:
    out = SidecarOutgoing("/w")
    out.spent({"input_tokens": 3})
    assert "ext" not in str(out.translate(ours.TextDelta(text="a"))[0].ext)
    (told,) = out.translate(ours.Message(text="m"))
    assert told.ext == {"usage": {"input_tokens": 3}}
    (again,) = out.translate(ours.Message(text="m"))
    assert again.ext != told.ext


def test_passed_through_events_carry_the_agents_own_record() -> None:
    (told,) = SidecarOutgoing("/w", passthrough=True).translate(ours.Message(text="m", raw={"native": 1}))
    assert told.ext == {"raw_message": {"native": 1}}


def incoming(*events: AnyAgentEvent) -> list[ours.Event]:
    back = SidecarIncoming(access_of)
    return [made for event in events for made in back.translate(event)]


def test_what_we_say_comes_back_as_it_was() -> None:
    said = [made for event, _ in CASES for made in SidecarOutgoing("/w").translate(event)]
    kinds = [type(event).__name__ for event in incoming(*said)]
    assert kinds == [
        *("TextDelta", "Message", "ToolStarted", "ToolEnded", "Warned", "ToolDenied", "FileChanged", "FileChanged"),
        *("CommandRun", "Warned", "Failed"),
    ]


def test_calls_without_ids_are_answered_by_name_in_order() -> None:
    call = ToolCalled(ts=T, tool_name="read", input={})
    result = ToolReturned(ts=T, tool_name="read", output={"n": 1}, is_error=False)
    first, answered, second, again = incoming(call, result, call, result)
    assert isinstance(first, ours.ToolStarted) and isinstance(answered, ours.ToolEnded)
    assert first.call == answered.call and answered.result == '{"n":1}'
    assert isinstance(second, ours.ToolStarted) and isinstance(again, ours.ToolEnded)
    assert second.call == again.call != first.call


def test_a_usage_event_of_a_foreign_kind_is_usage() -> None:
    strange = {"type": "usage", "input_tokens": 3, "output_tokens": True, "estimated_cost_usd": 1}
    (usage,) = incoming(WarningGiven(ts=T, message="unknown", ext={"unknown_event": strange}))
    assert usage == ours.Usage(input_tokens=3, cost_usd=1.0)
    strange = {"type": "usage", "input_tokens": 3, "estimated_cost_usd": True}
    (usage,) = incoming(WarningGiven(ts=T, message="unknown", ext={"unknown_event": strange}))
    assert usage == ours.Usage(input_tokens=3, cost_usd=None)


def test_a_peers_own_code_is_the_better_one() -> None:
    assert contract_code("peer_fatal", {"error_code": "backend_auth_failed"}) == "backend_auth_failed"
    assert contract_code("peer_fatal", {"error_code": "made_up"}) is None
    assert contract_code("timeout") == "backend_timeout"
    assert set(CODES.values()) <= set(ERROR_CODES)


def test_a_retry_is_a_warning_and_an_error_without_a_code_of_the_contract_has_none() -> None:
    out = SidecarOutgoing("/w/")
    error = ours.ErrorInfo(code="cancelled", message="stopped")
    (again,) = out.translate(ours.Retrying(ts=1.0, attempt=2, delay_ms=1, error=error))
    assert again == WarningGiven(ts=T, message="trying again (2): stopped")
    (failed,) = out.translate(ours.Failed(ts=1.0, error=error))
    assert failed == ErrorMet(ts=T, message="stopped")
    assert out.translate(ours.FileChanged(ts=1.0, path="/w/a", change="deleted")) == [
        FileWritten(ts=T, path="a", summary="deleted")
    ]
    assert out.translate(ours.Message(ts=1.0, text="inner", parent="p")) == []
    (own,) = SidecarOutgoing("/w", passthrough=True).translate(ours.TextDelta(ts=1.0, text="a"))
    assert own.ext["raw_message"]["text"] == "a"
    warned, returned = SidecarOutgoing("/w", passthrough=True).translate(
        ours.ToolDenied(ts=1.0, call="c", name="n", reason="r", raw=7)
    )
    assert warned.ext == {"raw_message": 7} and returned.ext is UNSET
    out.spent({"n": 1})
    first, last = out.translate(ours.ToolDenied(ts=1.0, call="c", name="n", reason="r"))
    assert first.ext is UNSET and last.ext == {"usage": {"n": 1}}


@pytest.mark.parametrize(
    ("summary", "change"),
    [
        ("created a file", "added"),
        ("New", "added"),
        ("removed", "deleted"),
        ("delete it", "deleted"),
        ("deleted", "deleted"),
        ("edited", "modified"),
        ("", "modified"),
    ],
)
def test_what_became_of_a_file_is_read_from_the_first_word(summary: str, change: str) -> None:
    (told,) = incoming(FileWritten(ts=T, path="a", summary=summary))
    assert isinstance(told, ours.FileChanged) and (told.change, told.path) == (change, "a")


def test_what_a_sidecar_says_is_told_with_its_own_record() -> None:
    raw = {"raw_message": {"x": 1}}
    said, failed, coded, ran = incoming(
        AssistantSaid(ts=T, text="hi", ext=raw),
        ErrorMet(ts=T, message="no"),
        ErrorMet(ts=T, message="no", error_code="backend_timeout"),
        CommandExecuted(ts=T, command="ls", exit_code=2, output_preview=None),
    )
    assert isinstance(said, ours.Message) and (said.text, said.raw) == ("hi", {"x": 1})
    assert isinstance(failed, ours.Failed) and failed.error.code == "remote_error"
    assert isinstance(coded, ours.Failed) and coded.error.code == "backend_timeout"
    assert isinstance(ran, ours.CommandRun) and (ran.exit_code, ran.output) == (2, "")
    call = ToolCalled(ts=T, tool_name="bash", input={"command": "ls"}, tool_use_id="c", parent_tool_use_id="p")
    started, denied, ended = incoming(
        call,
        ToolReturned(ts=T, tool_name="bash", output={"denied": True}, is_error=True, tool_use_id="c"),
        ToolReturned(ts=T, tool_name="bash", output={"denied": 1}, is_error=False, tool_use_id="c"),
    )
    assert isinstance(started, ours.ToolStarted) and (started.call, started.parent, started.command) == ("c", "p", "ls")
    assert isinstance(denied, ours.ToolDenied) and (denied.call, denied.reason) == ("c", "")
    assert isinstance(ended, ours.ToolEnded) and ended.ok and ended.call == "c"
    odd = {"unknown_event": {"type": "usage", "input_tokens": -1, "output_tokens": 2}}
    assert incoming(AssistantSaid(ts=T, text="a", ext=odd))[1:] == [ours.Usage(output_tokens=2)]
    assert len(incoming(WarningGiven(ts=T, message="w", ext={"unknown_event": {"type": "aura"}}))) == 1
    (stray,) = incoming(ToolReturned(ts=T, tool_name="x", output="", is_error=False))
    assert isinstance(stray, ours.ToolEnded) and stray.call == "call_1"
