"""One prompt through a session, printed: the contract of each format and each outcome, whatever the session does."""

import asyncio
import contextlib
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doors.oneshot.ran import HELLO, Commanded, Ran, Sink, interrupted, speaks
from tests.stand_ins.sessions import ScriptedSession, Step
from tests.waiting import until
from treadle.doors.oneshot.hosting import SchemaCheck, Verbose
from treadle.doors.oneshot.run import Hosting, OneShot
from treadle.errors import (
    AuthFailed,
    BudgetExceeded,
    ConfigError,
    EmptyReply,
    LocalError,
    MaxIterations,
    PeerClosed,
    ProviderError,
    RateLimited,
    StorageError,
    TimedOut,
)
from treadle.events import (
    AnyEvent,
    FileChanged,
    Message,
    Task,
    TaskChanged,
    TaskGroup,
    TaskGroupChanged,
    TextDelta,
    ThinkingDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    Usage,
)
from treadle.session import AgentInfo, CommandResult, EventReader, Prompt, SessionSpec
from treadle.sessions.session import Turn
from treadle.sessions.totals import TurnSummary
from treadle.verification.ending import CheckedEnding
from treadle.wire.common.losses import dropped, emulated
from treadle.wire.oneshot.connection import OutputFormat

FORMATS: list[OutputFormat] = ["text", "json", "stream-json"]


SEED_KEYS = ["type", "result", "session_id", "subtype"]


async def ran(*steps: Step, output_format: OutputFormat = "json", prompt: str = "go", **more: Any) -> Ran:
    return await Ran(Commanded(steps), output_format, **more).go(prompt)


async def test_text_is_the_answer_and_a_newline() -> None:
    run = await ran(*HELLO, output_format="text")
    assert (run.out.data, run.err.data, run.code) == (b"Hello\n", b"", 0)


async def test_text_names_on_stderr_what_was_not_allowed_once_each() -> None:
    denied = [ToolDenied(call=f"c{n}", name="bash", reason=reason) for n, reason in enumerate(("one", "two", "one"))]
    run = await ran(*denied, *HELLO, output_format="text")
    assert (run.out.data, run.code) == (b"Hello\n", 0)
    assert run.err.data == b"treadle: not allowed: one\ntreadle: not allowed: two\n"


async def test_json_is_exactly_one_object_in_one_write_with_the_seed_keys_first() -> None:
    run = await ran(*HELLO)
    [result] = run.out.records
    assert list(result)[:4] == SEED_KEYS and run.out.writes == 1 and run.code == 0
    assert [result[key] for key in SEED_KEYS] == ["result", "Hello", "s1", "success"]


async def test_stream_json_is_a_line_per_delta_and_then_the_result() -> None:
    run = await ran(*HELLO, output_format="stream-json")
    first, second, result = run.out.records
    assert first["event"] == {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hel"}}
    assert list(first) == ["type", "event", "session_id", "uuid"] and first["uuid"] != second["uuid"]
    assert (result["type"], result["result"], result["subtype"]) == ("result", "Hello", "success")


async def test_the_result_has_what_scripts_for_claude_code_look_for() -> None:
    use = Usage(model="m", input_tokens=5, output_tokens=2, cache_read_tokens=3, cache_write_tokens=1, cost_usd=0.25)
    denied = ToolDenied(call="c1", name="bash", reason="no", args={"command": "ls"})
    result = (await ran(use, denied, *HELLO)).result
    assert result["is_error"] is False and result["num_turns"] == 1 and result["total_cost_usd"] == 0.25
    assert result["usage"] == {
        "input_tokens": 5,
        "cache_creation_input_tokens": 1,
        "cache_read_input_tokens": 3,
        "output_tokens": 2,
    }
    assert result["modelUsage"]["m"]["costUSD"] == 0.25
    assert result["permission_denials"] == [{"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": "ls"}}]
    assert result["terminal_reason"] == "completed" and result["stop_reason"] == "end_turn"
    assert {"duration_ms", "duration_api_ms", "uuid"} <= set(result) and "errors" not in result


async def test_what_was_refused_to_a_subagent_counts_too() -> None:
    run = await ran(ToolDenied(call="c1", name="bash", reason="no", parent="agent_1"), *HELLO, strict=True)
    assert run.code == 4 and [denied["tool_name"] for denied in run.result["permission_denials"]] == ["Bash"]


@pytest.mark.parametrize("error", [MaxIterations("x"), ProviderError("x")])
async def test_a_stop_that_is_not_the_models_has_no_stop_reason(error: Step) -> None:
    assert (await ran(*HELLO, error)).result["stop_reason"] is None


async def test_tokens_that_were_only_estimated_say_so() -> None:
    counted, guessed = Usage(input_tokens=5), Usage(input_tokens=5, source="estimate")
    assert (await ran(counted, guessed, *HELLO)).result["usage"]["estimated"] is True
    assert "estimated" not in (await ran(counted, *HELLO)).result["usage"]


class Forgetful(Commanded):
    """A session of an agent that cannot tell everything."""

    @property
    def info(self) -> AgentInfo:
        losses = {"Usage.cost_usd": dropped("it tells no prices"), "FileChanged": emulated("from its own words")}
        return AgentInfo(name="forgetful", losses=losses)


async def test_what_the_agent_could_not_tell_in_this_run_is_in_the_result() -> None:
    forgetful = Forgetful((Usage(model="m", input_tokens=5), *HELLO), HELLO)
    first = (await Ran(forgetful, "json").go()).result["lost"]
    assert first == [{"name": "Usage.cost_usd", "level": "dropped", "why": "it tells no prices"}]
    changed = Forgetful((FileChanged(path="a", change="created"), *HELLO))
    assert [row["name"] for row in (await Ran(changed, "json").go()).result["lost"]] == [
        "FileChanged",
        "Usage.cost_usd",
    ]
    assert "lost" not in (await ran(*HELLO)).result


async def test_what_was_interrupted_before_anything_was_asked_can_be_told() -> None:
    runner = OneShot(Commanded())
    assert not runner.interrupted
    await runner.interrupt("enough")
    assert runner.interrupted
    await runner.session.close()


@pytest.mark.parametrize("output_format", FORMATS)
async def test_an_error_is_exit_1_with_its_message_where_it_belongs(output_format: OutputFormat) -> None:
    run = await ran(TextDelta(text="par"), ProviderError("401: bad key"), output_format=output_format)
    assert run.code == 1
    if output_format == "text":
        assert run.out.data == b"" and run.err.data == b"treadle: 401: bad key\n"
    else:
        assert run.result["result"] == "" and run.result["subtype"] == "error" and run.result["is_error"] is True
        assert run.result["errors"] == ["401: bad key"] and run.result["error_code"] == "provider_error"


async def test_a_session_that_closes_in_the_middle_is_exit_1() -> None:
    async def leave(session: ScriptedSession, turn: Any) -> None:
        session._log.close()

    run = await ran(leave)
    assert run.code == 1 and run.result["error_code"] == "no_result"


async def test_a_session_that_refuses_the_prompt_is_exit_1() -> None:
    session = Commanded()
    await session.close()
    run = await Ran(session, "json").go()
    assert run.code == 1 and "closed" in run.result["errors"][0]


@pytest.mark.parametrize("output_format", FORMATS)
async def test_an_interrupted_run_is_exit_0_with_the_partial_text(output_format: OutputFormat) -> None:
    run = Ran(Commanded([TextDelta(text="partial"), asyncio.Event()]), output_format)
    await interrupted(run, speaks)
    assert run.code == 0
    if output_format == "text":
        assert run.out.data == b"partial\n"
    else:
        assert run.result["result"] == "partial" and run.result["subtype"] == "success"
        assert run.result["terminal_reason"] == "aborted_streaming" and run.result["is_error"] is False


async def test_interrupted_with_nothing_said_prints_nothing() -> None:
    run = Ran(Commanded([asyncio.Event()]), "text")
    await interrupted(run, lambda event: True)
    assert (run.out.data, run.code) == (b"", 0)


async def test_a_message_that_speaks_of_an_abort_is_no_interruption() -> None:
    run = await ran(ProviderError("request aborted by the gateway"))
    assert run.code == 1 and run.result["subtype"] == "error"


async def test_model_calls_that_an_agent_does_not_count_are_unknown_and_not_none() -> None:
    session = ScriptedSession(SessionSpec.of(cwd="/", session_id="s1"), [], cannot=("iterations",))
    run = await Ran(session, "json").go()
    assert run.code == 0 and run.result["num_turns"] is None


async def test_a_command_can_be_interrupted_in_any_session() -> None:
    class Foreign(Commanded):
        """A session that knows no interruption of commands."""

        async def command(self, name: str, args: str) -> CommandResult | None:
            self.given.append((name, args))
            await asyncio.Event().wait()
            return None

    run = Ran(Foreign(), "json")
    task = asyncio.create_task(run.go("/slow"))
    await asyncio.sleep(0)
    while not run.session.given:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    await run.runner.interrupt("enough")
    await task
    assert run.code == 0 and run.result["terminal_reason"] == "aborted_streaming"


class Interruptible(Commanded):
    """Its command gives what it has when it is interrupted."""

    async def _command(self, name: str, args: str) -> CommandResult | None:
        self.given.append((name, args))
        self.emit(TaskChanged(change="text", task_id="t", data={"delta": "half"}))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if args == "nothing":
                raise
            self.emit(TaskChanged(change="closed", task_id="t"))
        return CommandResult(message="half", ok=False)


@pytest.mark.parametrize("output_format", FORMATS)
async def test_an_interrupted_command_ends_with_what_it_has(output_format: OutputFormat) -> None:
    session = Interruptible()
    run = Ran(session, output_format)
    task = asyncio.create_task(run.go("/slow"))
    await until(lambda: session.given)
    await run.runner.interrupt("enough")
    await task
    assert run.code == 0
    if output_format == "text":
        assert (run.out.data, run.err.data) == (b"half\n", b"")
    else:
        assert (run.result["result"], run.result["subtype"]) == ("half", "success")
        assert len(run.out.records) == (3 if output_format == "stream-json" else 1)


async def test_an_interrupted_command_that_has_nothing_prints_nothing() -> None:
    session = Interruptible()
    run = Ran(session, "text", strict=True)
    task = asyncio.create_task(run.go("/slow nothing"))
    await until(lambda: session.given)
    await run.runner.interrupt("enough")
    await task
    assert (run.code, run.out.data, run.err.data) == (130, b"", b"")


async def test_a_turn_that_a_command_starts_while_it_is_interrupted_is_interrupted_too() -> None:
    async def skill(session: Commanded, args: str) -> CommandResult:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return CommandResult(message="", turn=await session.prompt(Prompt(text="expanded")))

    run = Ran(Commanded([asyncio.Event()], command=skill), "json")
    task = asyncio.create_task(run.go("/skill"))
    await until(lambda: run.session.given)  # type: ignore[attr-defined]
    await asyncio.gather(task, run.runner.interrupt("enough"))
    assert run.code == 0 and run.result["terminal_reason"] == "aborted_streaming"


async def test_interrupted_before_it_begins_it_does_nothing() -> None:
    class Sudden(Sink):
        async def write(self, data: bytes) -> None:
            await super().write(data)
            await run.runner.interrupt("enough")

    session = Commanded()
    run = Ran(session, "stream-json", extra=Verbose(session, cwd="/"))
    run.runner._out = run.out = Sudden()
    await run.go("/anything")
    assert (run.code, run.result["result"], session.given) == (0, "", [])


async def test_interrupted_in_a_tool_the_reason_says_so() -> None:
    run = Ran(Commanded([ToolStarted(call="c1", name="bash"), asyncio.Event()]), "json")
    task = asyncio.create_task(run.go())
    await until(lambda: run.runner._totals.in_tools)
    await run.runner.interrupt("enough")
    await task
    assert run.result["terminal_reason"] == "aborted_tools"


def stopped(reason: str) -> Step:
    """A turn that completes although the model was cut off or would not."""

    async def stop(session: ScriptedSession, turn: Turn) -> None:
        turn.ending = lambda outcome, *_, **__: Turn.ending(turn, outcome, stop_reason=reason)  # type: ignore[method-assign]

    return stop


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (MaxIterations("too many"), 3),
        (BudgetExceeded("too much"), 3),
        (TimedOut("too long"), 124),
        (ProviderError("down"), 1),
        (ToolDenied(call="c", name="bash", reason="no"), 4),
        (stopped("length"), 4),
        (stopped("refusal"), 4),
        (TextDelta(text="fine"), 0),
    ],
)
async def test_strict_exit_tells_outcomes_apart_and_is_error_agrees(step: Step, code: int) -> None:
    run = await ran(step, strict=True)
    assert run.code == code and run.result["is_error"] == (code != 0)


async def test_strict_exit_of_an_interrupted_run_is_130() -> None:
    run = Ran(Commanded([asyncio.Event()]), "json", strict=True)
    await interrupted(run, lambda event: True)
    assert run.code == 130 and run.result["is_error"] is True


async def test_a_command_gets_the_rest_of_the_text_unchanged_and_no_turn_is_started() -> None:
    async def done(session: Any, args: str) -> CommandResult:
        return CommandResult(message="done")

    session = Commanded(command=done)
    run = await Ran(session, "text").go('/agent run  Plan\n --x "a  b"  ')
    assert session.given == [("agent", ' run  Plan\n --x "a  b"  '[1:])] and run.out.data == b"done\n"
    assert session.events().ready() == []


async def test_a_lone_slash_is_an_ordinary_prompt() -> None:
    session = Commanded()
    run = await Ran(session, "text").go("/")
    assert session.given == [] and run.out.data == b"/\n"


@pytest.mark.parametrize("output_format", FORMATS)
async def test_an_unknown_command_is_an_error_that_names_it(output_format: OutputFormat) -> None:
    run = await ran(output_format=output_format, prompt="/nope x")
    assert run.code == 1
    said = run.err.data.decode() if output_format == "text" else run.result["errors"][0]
    assert 'Unknown command "/nope".' in said


async def test_a_failed_command_is_an_error_with_its_message() -> None:
    async def fail(session: Any, args: str) -> CommandResult:
        return CommandResult(message="usage: /rename NAME", ok=False)

    run = await Ran(Commanded(command=fail), "json").go("/rename")
    assert run.code == 1 and run.result["result"] == "" and run.result["errors"] == ["usage: /rename NAME"]


async def test_the_time_of_a_command_is_told_too() -> None:
    async def slow(session: Any, args: str) -> CommandResult:
        await asyncio.sleep(0.01)
        return CommandResult(message="done")

    assert (await Ran(Commanded(command=slow), "json").go("/slow")).result["duration_ms"] >= 10


async def test_a_command_that_throws_is_exit_1_and_no_hang() -> None:
    async def burst(session: Any, args: str) -> CommandResult:
        raise LocalError("Unknown background job group: g9")

    run = await Ran(Commanded(command=burst), "json").go("/agent wait g9")
    assert run.code == 1 and run.result["errors"] == ["Unknown background job group: g9"]


async def test_a_command_that_starts_a_turn_is_decided_by_the_turn() -> None:
    async def skill(session: Commanded, args: str) -> CommandResult:
        return CommandResult(message="started", turn=await session.prompt(Prompt(text="expanded")))

    run = await Ran(Commanded(HELLO, command=skill), "text").go("/skill")
    assert run.out.data == b"Hello\n"


async def test_a_turn_that_ends_inside_its_command_is_not_missed() -> None:
    async def skill(session: Commanded, args: str) -> CommandResult:
        turn = await session.prompt(Prompt(text="expanded"))
        async for event in session.events():
            if type(event).__name__ == "TurnEnded":
                break
        return CommandResult(message="", turn=turn)

    run = await Ran(Commanded([Usage(input_tokens=5), *HELLO], command=skill), "stream-json").go("/skill")
    assert run.code == 0 and run.result["result"] == "Hello" and len(run.out.records) == 3
    assert run.result["usage"]["input_tokens"] == 5


async def test_background_events_before_the_commands_own_result_are_written_before_it() -> None:
    task = Task(id="agent_1", kind="agent", label="count", status="queued", updated_at=1.5)
    group = TaskGroup(id="group_1", tasks=("agent_1",), status="completed")

    async def parallel(session: Commanded, args: str) -> CommandResult:
        session.emit(TaskChanged(change="created", task_id="agent_1", task=task))
        await asyncio.sleep(0)
        session.emit(TaskChanged(change="text", task_id="agent_1", data={"delta": "hi"}))
        session.emit(TaskGroupChanged(change="completed", group=group))
        return CommandResult(message="all done")

    run = await Ran(Commanded(command=parallel), "stream-json").go("/agent parallel")
    created, text, completed, result = run.out.records
    assert created["event"]["background_task_event"]["task"]["updatedAt"] == "1970-01-01T00:00:01.500Z"
    assert text["event"] == {
        "type": "background_task_event",
        "background_task_event": {"type": "background_task_text_delta", "taskId": "agent_1", "delta": "hi"},
    }
    body = completed["event"]["background_job_group_event"]
    assert body["type"] == "background_job_group_completed" and body["group"]["taskIds"] == ["agent_1"]
    assert result["result"] == "all done"


async def test_what_a_command_said_is_written_whole_however_slow_the_reader_is() -> None:
    class Slow(Sink):
        async def write(self, data: bytes) -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            await super().write(data)

    async def talk(session: Commanded, args: str) -> CommandResult:
        for number in range(3):
            session.emit(TaskChanged(change="text", task_id="t", data={"delta": str(number)}))
            if number == 0:  # while it is being written, the others come and the command ends
                for _ in range(5):
                    await asyncio.sleep(0)
        return CommandResult(message="done")

    run = Ran(Commanded(command=talk), "stream-json")
    run.runner._out = run.out = Slow()
    await run.go("/talk")
    said = [record["event"]["background_task_event"]["delta"] for record in run.out.records[:-1]]
    assert said == ["0", "1", "2"] and run.result["result"] == "done"


async def test_what_a_command_said_last_is_written_also_when_its_events_come_late() -> None:
    class Late(Commanded):
        def events(self, after: int = 0, *, observer: bool = False) -> EventReader:
            reader = super().events(after, observer=observer)
            batch = reader.batch

            async def late() -> list[AnyEvent]:
                for _ in range(50):
                    await asyncio.sleep(0)
                return await batch()

            reader.batch = late  # type: ignore[method-assign]
            return reader

    async def talk(session: Commanded, args: str) -> CommandResult:
        session.emit(TaskChanged(change="text", task_id="t", data={"delta": "last"}))
        return CommandResult(message="done")

    run = await Ran(Late(command=talk), "stream-json").go("/talk")
    assert [record["type"] for record in run.out.records] == ["stream_event", "result"]


async def test_what_runs_on_in_the_background_is_known_as_unfinished_unless_it_is_detached() -> None:
    async def start(session: Commanded, args: str) -> CommandResult:
        for name, status in (("done", "completed"), ("own", "running"), ("away", "running")):
            task = Task(id=name, kind="agent", label=name, status=status)  # type: ignore[arg-type]
            session.emit(TaskChanged(change="updated", task_id=name, task=task))
        group = TaskGroup(id="g", tasks=("away",), status="running", wait_policy="detached")
        session.emit(TaskGroupChanged(change="created", group=group))
        return CommandResult(message="started")

    run = await Ran(Commanded(command=start), "text").go("/agent")
    assert [task.id for task in run.runner.unfinished] == ["own"] and run.err.data == b""


@pytest.mark.parametrize("prompt", ["", " \n"])
async def test_an_empty_prompt_is_an_error_and_no_turn(prompt: str) -> None:
    session = Commanded()
    run = await Ran(session, "json").go(prompt)
    assert run.code == 1 and run.result["error_code"] == "empty_prompt" and session.events().ready() == []


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_an_answer_that_fits_the_schema_is_in_the_result_as_a_value() -> None:
    run = await ran(TextDelta(text='```json\n{"n": 3}\n```'), check=SchemaCheck(SCHEMA))
    assert run.result["structured_output"] == {"n": 3} and run.code == 0


async def test_an_answer_that_does_not_fit_is_asked_for_again_in_the_same_session() -> None:
    session = Commanded([TextDelta(text="three")], [TextDelta(text='{"n": "3"}')], [TextDelta(text='{"n": 3}')])
    run = await Ran(session, "json", check=SchemaCheck(SCHEMA)).go()
    assert run.result["structured_output"] == {"n": 3} and run.result["num_turns"] == 3


async def test_an_interrupted_answer_is_not_held_to_the_schema() -> None:
    run = Ran(Commanded([TextDelta(text="par"), asyncio.Event()]), "json", check=SchemaCheck(SCHEMA))
    await interrupted(run, speaks)
    assert (run.code, run.result["result"]) == (0, "par") and "structured_output" not in run.result


async def test_an_answer_that_never_fits_is_an_error_of_its_own() -> None:
    session = Commanded(*([TextDelta(text="no")] for _ in range(3)))
    run = await Ran(session, "json", check=SchemaCheck(SCHEMA)).go()
    assert run.code == 1 and run.result["error_code"] == "schema_mismatch" and "not JSON" in run.result["errors"][0]


async def test_a_reader_that_goes_away_ends_the_run_with_peer_closed() -> None:
    class Closed(Sink):
        async def write(self, data: bytes) -> None:
            raise PeerClosed("gone")

    run = Ran(Commanded([*HELLO, asyncio.Event()]), "stream-json")
    run.runner._out = Closed()
    with pytest.raises(PeerClosed):
        await run.go()
    await run.session.close()


async def test_output_that_fails_while_a_command_runs_ends_the_run_too() -> None:
    class Full(Sink):
        async def write(self, data: bytes) -> None:
            raise StorageError("full")

    async def tell(session: Commanded, args: str) -> CommandResult:
        session.emit(TaskChanged(change="text", task_id="agent_1", data={"delta": "hi"}))
        return CommandResult(message="done")

    run = Ran(Commanded(command=tell), "stream-json")
    run.runner._out = Full()
    with pytest.raises(StorageError):
        await run.go("/tell")
    await run.session.close()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        *((error, "api_error") for error in (ProviderError("x"), RateLimited("x"), AuthFailed("x"), EmptyReply("x"))),
        (MaxIterations("x"), "max_turns"),
        (BudgetExceeded("x"), "budget_exhausted"),
        (TimedOut("x"), "error"),
    ],
)
async def test_the_reason_says_what_went_wrong(error: Exception, reason: str) -> None:
    assert (await ran(error)).result["terminal_reason"] == reason


async def test_nobody_listens_any_more_when_the_result_is_written() -> None:
    class Watched(Commanded):
        def events(self, after: int = 0, *, observer: bool = False) -> EventReader:
            readers.append(super().events(after, observer=observer))
            return readers[-1]

    class Looking(Sink):
        async def write(self, data: bytes) -> None:
            await super().write(data)
            held.append(sum(not reader.observer for reader in readers))

    readers: list[Any] = []
    held: list[int] = []
    run = Ran(Watched(HELLO), "stream-json")
    run.runner._out = run.out = Looking()
    await run.go()
    assert held[0] == 1 and held[-1] == 0


async def test_another_turn_of_the_session_counts_for_nothing() -> None:
    theirs = [TextDelta(text="x"), Usage(input_tokens=5), ToolDenied(call="c", name="bash", reason="no")]
    session = Commanded(theirs, HELLO)
    await session.prompt(Prompt(text="another vendor's"))
    run = await Ran(session, "stream-json", strict=True).go()
    assert (run.code, run.result["result"], run.result["num_turns"]) == (0, "Hello", 1)
    assert run.result["usage"]["input_tokens"] == 0 and len(run.out.records) == 3


async def test_a_second_run_begins_to_count_anew() -> None:
    run = Ran(Commanded([Usage(input_tokens=5), *HELLO], [Usage(input_tokens=2), *HELLO]), "json")
    await run.go()
    await run.go()
    assert (run.result["num_turns"], run.result["usage"]["input_tokens"]) == (1, 2)


STEPS = st.sampled_from(
    [
        TextDelta,
        lambda: Message(text="m"),
        lambda: ThinkingDelta(text="t"),
        lambda: ToolStarted(call="c", name="bash"),
        lambda: ToolEnded(call="c", name="bash", result="r"),
        lambda: ToolDenied(call="d", name="bash", reason="r"),
        lambda: Usage(model="m", cost_usd=0.1),
        lambda: TaskChanged(change="text", task_id="t", data={"delta": "\ud83d"}),
        lambda: ProviderError("down"),
        lambda: ValueError("bug"),
        lambda: asyncio.CancelledError(),
    ]
)


@given(st.lists(STEPS, max_size=8), st.integers(0, 12), st.booleans(), st.booleans())
def test_json_is_one_object_and_stream_json_ends_with_one_result_whatever_happens(
    makers: list[Any], interrupt_after: int, strict: bool, verbose: bool
) -> None:
    async def play(output_format: OutputFormat) -> Ran:
        steps: list[Step] = [TextDelta(text="x") if make is TextDelta else make() for make in makers]
        session = Commanded(steps)
        extra = Verbose(session, cwd="/", partial=True) if verbose else None
        run = Ran(session, output_format, strict=strict, extra=extra)
        task = asyncio.create_task(run.go())
        for _ in range(interrupt_after):
            await asyncio.sleep(0)
        if interrupt_after % 2:
            await run.runner.interrupt("enough")
        await task
        await session.close()
        return run

    for output_format in ("json", "stream-json"):
        run = asyncio.run(play(output_format))  # type: ignore[arg-type]
        records = run.out.records
        if output_format == "json" and verbose:
            [records] = records
        assert [record["type"] for record in records].count("result") == 1 and records[-1]["type"] == "result"
        assert output_format == "stream-json" or verbose or len(records) == 1
        assert records[-1]["is_error"] == (run.code != 0)
        assert re.fullmatch(r"[0-9a-f-]{36}", records[-1]["uuid"])


async def test_codex_json_is_the_lines_of_codex_and_begins_anew_with_each_prompt() -> None:
    used = Usage(input_tokens=5, cache_read_tokens=3, cache_write_tokens=1, output_tokens=2, reasoning_tokens=1)
    run = Ran(Commanded([used, *HELLO], [ProviderError("down")]), "codex-json")
    await run.go()
    kinds = [record["type"] for record in run.out.records]
    assert kinds[0] == "thread.started" and kinds[-1] == "turn.completed" and run.code == 0
    assert run.out.records[-1]["usage"] == {
        "input_tokens": 9,
        "cached_input_tokens": 3,
        "cache_write_input_tokens": 1,
        "output_tokens": 2,
        "reasoning_output_tokens": 1,
    }
    before = len(run.out.records)
    await run.go()
    later = run.out.records[before:]
    assert later[0]["type"] == "thread.started" and later[-1]["type"] == "turn.failed" and run.code == 1
    stopped = Ran(Commanded([TextDelta(text="partial"), asyncio.Event()]), "codex-json")
    await interrupted(stopped, speaks)
    assert "interrupted" in str(stopped.out.records[-1])


async def test_a_prompt_that_is_not_run_has_a_result_without_a_turn() -> None:
    run = Ran(Commanded(), "stream-json")
    assert await run.runner.refuse("not today") == 1
    assert await run.runner.blocked("rude") == 0
    refused, blocked = run.out.records
    assert (refused["errors"], refused["error_code"]) == (["not today"], "refused")
    assert blocked["result"] == "UserPromptSubmit operation blocked by hook:\nrude" and not blocked["is_error"]
    assert run.session.events().ready() == [] and not run.runner.busy
    hosted = Ran(Commanded(), "stream-json", hosting=Hosting())
    assert await hosted.runner.blocked("rude") == 0
    line, result = hosted.out.records
    assert "rude" in str(line) and result["result_index"] == 0


async def test_a_cost_that_is_not_known_is_what_the_caller_wants_and_says_so() -> None:
    unknown, known = Usage(model="m", input_tokens=5), Usage(model="m", input_tokens=5, cost_usd=0.5)
    result = (await ran(unknown, *HELLO, unknown_cost=0.0)).result
    assert (result["total_cost_usd"], result["cost_unknown"]) == (0.0, True)
    result = (await ran(known, *HELLO, unknown_cost=0.0)).result
    assert result["total_cost_usd"] == 0.5 and "cost_unknown" not in result


@pytest.mark.parametrize("sealed", [None, True, False])
async def test_whether_it_was_sealed_is_told_in_the_result_and_with_verbose_in_text(sealed: bool | None) -> None:
    for output_format, verbose in (("json", False), ("text", False), ("text", True)):
        session = Commanded(HELLO)
        session._info = msgspec.structs.replace(session._info, sealed=sealed)
        extra = Verbose(session, cwd="/") if verbose else None
        run = await Ran(session, output_format, extra=extra).go()  # type: ignore[arg-type]
        if output_format == "json":
            assert run.result.get("sealed") == sealed and ("sealed" in run.result) == (sealed is not None)
        else:
            assert (b"not sealed: " in run.err.data) == (verbose and sealed is False)
            assert run.out.data == b"Hello\n"


async def test_lines_beside_the_conversation_come_before_its_result() -> None:
    run = Ran(Commanded(HELLO), "stream-json")
    run.runner.tell({"type": "system", "subtype": "note"})
    await run.go()
    assert [record["type"] for record in run.out.records].count("system") == 1
    run.runner.tell({"type": "system", "subtype": "later"})
    assert await run.runner.refuse("no") == 1
    assert [record["type"] for record in run.out.records[-2:]] == ["system", "result"]


async def test_a_runner_knows_when_it_is_busy_which_turn_it_was_and_what_answers_must_be() -> None:
    hold = asyncio.Event()
    run = Ran(Commanded([TextDelta(text="{}"), hold], [TextDelta(text='{"n": 1}')]), "json")
    assert not run.runner.busy and run.runner.turn is None and not run.runner.forward_subagents()
    run.runner.demand(SchemaCheck(SCHEMA))
    task = asyncio.create_task(run.go())
    await until(lambda: run.runner.turn)
    assert run.runner.busy
    hold.set()
    await task
    assert not run.runner.busy and run.result["structured_output"] == {"n": 1}
    extra = Verbose(run.session, cwd="/")
    assert not extra.subagents and OneShot(run.session, extra=extra).forward_subagents() and extra.subagents


async def test_text_with_further_lines_prints_only_the_answer_and_json_one_array() -> None:
    session = Commanded(HELLO, HELLO)
    text = await Ran(session, "text", extra=Verbose(session, cwd="/")).go()
    assert text.out.data == b"Hello\n"
    array = await Ran(session, "json", extra=Verbose(session, cwd="/")).go()
    [[first, *_, result]] = array.out.records
    assert first["type"] == "system" and result["type"] == "result" and array.out.writes == 1


async def test_words_are_left_out_where_whole_lines_are_enough() -> None:
    for deltas in (True, False):
        session = Commanded(HELLO)
        run = await Ran(session, "stream-json", extra=Verbose(session, cwd="/", deltas=deltas)).go()
        assert ("stream_event" in [record["type"] for record in run.out.records]) is deltas


async def test_a_prompt_that_is_meant_as_it_is_is_no_command_and_images_alone_are_a_prompt() -> None:
    session = Commanded(HELLO, HELLO)
    run = Ran(session, "json")
    run.code = await run.runner.run("/help", verbatim=True)
    assert session.given == [] and run.code == 0
    assert await run.runner.run("", images=(b"x",)) == 0
    assert await run.runner.run("", documents=(b"x",)) == 1
    assert run.runner.result is not None and run.runner.result.error_code != "empty_prompt"
    assert await run.runner.run("/help", documents=(b"x",)) == 1


async def test_a_format_that_there_is_not_names_those_that_there_are() -> None:
    with pytest.raises(ConfigError) as refused:
        OneShot(Commanded(), "xml")  # type: ignore[arg-type]
    assert refused.value.hint == "one of text, json, stream-json, codex-json"


class Endless:
    """A check that does not end; it keeps what was printed when it began."""

    def __init__(self, out: Sink) -> None:
        self.out, self.printed = out, b""

    async def begin(self, *, anew: bool) -> None: ...

    async def ending(self, turn: TurnSummary) -> CheckedEnding:
        self.printed = self.out.data
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize(("output_format", "printed"), [("text", b"Hello\n"), ("json", b"")])
async def test_an_answer_does_not_wait_for_the_check_which_ends_with_the_time_of_the_run(
    output_format: OutputFormat, printed: bytes
) -> None:
    out = Sink()
    check = Endless(out)
    runner = OneShot(Commanded(HELLO), output_format, out=out, err=Sink(), verifier=check, seconds=1.0)
    assert await asyncio.wait_for(runner.run("go"), 60) == 0
    assert check.printed == printed and runner.result is not None
    assert runner.result.verification["why"] == "--timeout was over before the check ended"
