"""What events tell about turns, cost and what is forbidden."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.host.conftest import order
from treadle.errors import BudgetExceeded, Denied, MaxIterations, TreadleError
from treadle.host.order import RunSupervisor
from treadle.wire.sidecar.connection import NO_POLICY
from treadle.wire.sidecar.receipts import (
    AnyAgentEvent,
    AssistantDelta,
    AssistantSaid,
    CommandExecuted,
    FileWritten,
    ToolCalled,
    ToolReturned,
    WarningGiven,
)
from treadle.workspace.changes import PathChange

T = "2025-01-01T00:00:00Z"
DELTA = AssistantDelta(ts=T, text="w")
MESSAGE = AssistantSaid(ts=T, text="m")
CALL = ToolCalled(ts=T, tool_name="read", input={"path": "a"})
RESULT = ToolReturned(ts=T, tool_name="read", output="", is_error=False)


def watch(
    tmp_path: Path, *events: AnyAgentEvent, max_turns: int | None = None, cost: float | None = None, **lists: Any
) -> tuple[TreadleError | None, RunSupervisor]:
    made = order(tmp_path, policy=replace(NO_POLICY, **lists))
    supervisor = RunSupervisor(replace(made, config=replace(made.config, max_turns=max_turns, max_budget_usd=cost)))
    found = None
    for event in events:
        found = found or supervisor.watch([event])
    return found, supervisor


def test_a_turn_is_what_is_said_between_rounds_of_tools(tmp_path: Path) -> None:
    talk = (DELTA, DELTA, MESSAGE, CALL, CALL, RESULT, RESULT, DELTA, MESSAGE, MESSAGE)
    assert watch(tmp_path, *talk)[1].turns == 2
    assert watch(tmp_path, *talk, max_turns=2)[0] is None
    error = watch(tmp_path, *talk, max_turns=1)[0]
    assert isinstance(error, MaxIterations) and str(error) == "the order allows 1 turns, and this is the next one"
    supervisor = watch(tmp_path)[1]
    assert supervisor.watch([]) is None and supervisor.turns == 0
    seen = []
    for events in ([DELTA], [DELTA, DELTA], [RESULT], [DELTA], [RESULT, CALL], [RESULT, MESSAGE]):
        supervisor.watch(events)
        seen.append(supervisor.turns)
    assert seen == [1, 1, 1, 2, 3, 4]


def test_totals_in_ext_and_in_foreign_usage_events_count(tmp_path: Path) -> None:
    told = replace(MESSAGE, ext={"usage": {"estimated_cost_usd": 2.0}})
    foreign = WarningGiven(ts=T, message="", ext={"unknown_event": {"type": "usage", "estimated_cost_usd": 3}})
    assert watch(tmp_path, told, cost=2.0)[0] is None
    error = watch(tmp_path, told, foreign, cost=2.0)[0]
    assert isinstance(error, BudgetExceeded) and str(error) == "the order allows 2 USD, and 3 USD are spent"
    piece = replace(DELTA, ext={"usage": {"estimated_cost_usd": 4}, "unknown_event": "text"})
    assert watch(tmp_path, piece)[1].cost == 4.0 and watch(tmp_path, piece)[1].turns == 1
    assert watch(tmp_path, DELTA)[1].cost is None and watch(tmp_path, DELTA, cost=0.0)[0] is None
    assert watch(tmp_path, replace(MESSAGE, ext={"usage": {"estimated_cost_usd": "4"}}))[1].cost is None
    assert watch(tmp_path, foreign, told)[1].cost == 3.0, "what is spent does not come back"
    odd = replace(MESSAGE, ext={"usage": {"estimated_cost_usd": True}})
    assert watch(tmp_path, odd)[1].cost is None, "true is no price"


def test_tools_files_and_commands_are_judged(tmp_path: Path) -> None:
    assert isinstance(watch(tmp_path, CALL, disallowed_tools=["read"])[0], Denied)
    assert isinstance(watch(tmp_path, CALL, require_approval_for=["read"])[0], Denied)
    assert isinstance(watch(tmp_path, CALL, deny_read=["a"])[0], Denied)
    assert watch(tmp_path, CALL, deny_read=["b"])[0] is None
    strange = ToolCalled(ts=T, tool_name="lint", input={"path": "a"})
    assert isinstance(watch(tmp_path, strange, deny_read=["a"])[0], Denied)
    assert watch(tmp_path, strange, deny_write=["a"], disallowed_tools=["read"])[0] is None
    assert isinstance(watch(tmp_path, FileWritten(ts=T, path="/etc/x", summary=""))[0], Denied)
    assert isinstance(watch(tmp_path, CommandExecuted(ts=T, command="cat .env"), deny_read=[".env"])[0], Denied)
    assert isinstance(watch(tmp_path, CommandExecuted(ts=T, command="ls"), disallowed_tools=["Bash"])[0], Denied)
    assert watch(tmp_path, CommandExecuted(ts=T, command="ls"), allowed_tools=["my_runner"])[0] is None


def test_what_was_really_changed_is_judged_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hosts")
    supervisor = RunSupervisor(order(tmp_path, policy=replace(NO_POLICY, deny_write=["a/**"])))
    assert supervisor.judge([PathChange(kind="added", path="link"), PathChange(kind="modified", path="b")]) is None
    denied = supervisor.judge([PathChange(kind="renamed", path="b", old_path="a/c")])
    assert isinstance(denied, Denied) and str(denied).startswith("a/c was changed; ")
    hidden = supervisor.judge([PathChange(kind="added", path="b")], ["c", "a/d"])
    assert isinstance(hidden, Denied) and str(hidden).startswith("a/d was changed; ")
    assert (
        supervisor.judge([], ["c"]) is None
        and supervisor.denied_writes()("a/x")
        and not supervisor.denied_writes()("b")
    )


CHANGED = FileWritten(ts=T, path="a.py", summary="modified")
RAN = CommandExecuted(ts=T, command="make", exit_code=0)


@pytest.mark.parametrize(
    ("event", "lists"),
    [
        (CHANGED, {"allowed_tools": ["Read", "Grep"]}),
        (CHANGED, {"disallowed_tools": ["Write"]}),
        (CHANGED, {"disallowed_tools": ["Edit"]}),
        (CHANGED, {"require_approval_for": ["Write"]}),
        (RAN, {"allowed_tools": ["Read", "Edit"]}),
        (RAN, {"disallowed_tools": ["Bash"]}),
        (RAN, {"require_approval_for": ["Bash"]}),
        (CALL, {"allowed_tools": ["Bash"]}),
        (CALL, {"require_approval_for": ["Read"]}),
    ],
)
def test_the_lists_of_tools_are_held_against_every_event_that_shows_an_act(
    tmp_path: Path, event: AnyAgentEvent, lists: dict[str, list[str]]
) -> None:
    assert isinstance(watch(tmp_path, event, **lists)[0], Denied)


@pytest.mark.parametrize(
    ("event", "allowed"),
    [(CHANGED, "Edit"), (CHANGED, "apply_patch"), (CHANGED, "Bash"), (CHANGED, "*"), (RAN, "run_tests"), (RAN, "task")],
)
def test_an_act_that_an_allowed_tool_could_have_done_is_no_breach(
    tmp_path: Path, event: AnyAgentEvent, allowed: str
) -> None:
    assert watch(tmp_path, event, allowed_tools=["Read", allowed])[0] is None


def test_the_lists_of_tools_are_held_against_what_was_really_changed(tmp_path: Path) -> None:
    found = [PathChange(kind="modified", path="a.py")]
    for lists in ({"allowed_tools": ["Read"]}, {"disallowed_tools": ["Write"]}, {"require_approval_for": ["Edit"]}):
        supervisor = watch(tmp_path, **lists)[1]
        assert isinstance(supervisor.judge(found), Denied) and str(supervisor.judge(found)).startswith(
            "a.py was changed; "
        )
        assert isinstance(supervisor.judge([], ["hidden"]), Denied)
        assert supervisor.judge([]) is None
    assert watch(tmp_path, allowed_tools=["Bash"])[1].judge(found) is None


def test_what_was_asked_for_before_it_happened_is_no_breach(tmp_path: Path) -> None:
    made = order(tmp_path, policy=replace(NO_POLICY, require_approval_for=["Write", "Bash", "Read"]))
    supervisor = RunSupervisor(made, asked=True)
    assert supervisor.watch([CHANGED, RAN, CALL]) is None
    assert supervisor.judge([PathChange(kind="modified", path="a.py")]) is None


def test_a_link_that_leads_out_is_found_also_when_it_is_made_later(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    supervisor = RunSupervisor(order(tmp_path / "root"))
    changed = FileWritten(ts=T, path="way/passwd", summary="modified")
    assert supervisor.watch([changed]) is None
    (tmp_path / "root" / "way").symlink_to("/etc")
    assert isinstance(supervisor.watch([changed]), Denied)
