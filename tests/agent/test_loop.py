"""The loop, with a scripted model and real tools: order, limits, failures, interruptions, and what history holds."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.scripts import calls, reply, says
from tests.waiting import until
from treadle.agent.context import Context
from treadle.agent.loop import PARALLEL_READS, Parts, Repeats, TurnBudget, TurnLoop
from treadle.agent.messages import AssistantMessage, ToolResult, UserMessage
from treadle.agent.providers.script import ScriptedProvider, parse
from treadle.agent.toolbox import Registry, builtin
from treadle.agent.tools.base import AnyTool, ToolContext, writing_freely
from treadle.agent.tools.files import resolve
from treadle.agent.transcript import Transcript
from treadle.errors import (
    Denied,
    EmptyReply,
    MaxIterations,
)
from treadle.events import (
    ContextCompacted,
    ContextHandoff,
    Event,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Warned,
)
from treadle.session import Access, Answer, Decision, HookVerdict, Limits, Prompt
from treadle.sessions.session import Turn
from treadle.sessions.totals import totals


class NoArgs(msgspec.Struct, frozen=True):
    tag: str = ""


class TestTool:
    """A tool that does what the test says."""

    __test__ = False
    description = "for tests"
    Args = NoArgs

    def __init__(self, name: str, kind: str, does: Callable[[NoArgs, ToolContext], Any]) -> None:
        self.name = name
        self.kind = kind
        self.does = does

    def access(self, args: NoArgs, resolve: Any) -> Access:
        return Access(tool=self.name, kind=self.kind)  # type: ignore[arg-type]

    async def run(self, args: NoArgs, context: ToolContext) -> str:
        done = await self.does(args, context)
        return str(done)


def saying(name: str, kind: str = "write", text: str = "x") -> TestTool:
    async def say(args: NoArgs, context: ToolContext) -> str:
        return text

    return TestTool(name, kind, say)


def forbidden(name: str, kind: str = "execute") -> TestTool:
    async def never(args: NoArgs, context: ToolContext) -> str:
        raise AssertionError("it ran")

    return TestTool(name, kind, never)


class Hanging(TestTool):
    """A tool that never ends by itself."""

    def __init__(self, kind: str = "execute") -> None:
        super().__init__("hang", kind, self.hang)
        self.started = asyncio.Event()

    async def hang(self, args: NoArgs, context: ToolContext) -> str:
        self.started.set()
        await asyncio.Event().wait()
        return ""


class NoHooks:
    async def judge(self, call: str, name: str, args: Any, access: Access) -> HookVerdict:
        return HookVerdict()

    async def pre_tool(self, name: str, args: Any, access: Access) -> str | None:
        return None

    async def post_tool(self, *given: Any) -> str:
        result: str = given[4]
        return result

    async def event(self, name: str, told: dict[str, Any]) -> HookVerdict:
        return HookVerdict()


class Run:
    """One turn of a loop over a script, and everything that came of it."""

    def __init__(self, tmp_path: Path, script: str, *tools: AnyTool, limits: Limits | None = None, **more: Any) -> None:
        limits = limits or Limits()
        self.events: list[Event] = []
        self.provider = ScriptedProvider(parse(script))
        self.turn = Turn(Prompt(text="go"))
        self.transcript = Transcript.create(cwd=str(tmp_path), model="scripted")
        registry = Registry([*builtin(("read_file", "write_file")), *tools])
        self.parts = Parts(
            provider=self.provider,
            weak=self.provider,
            system="you are tested",
            tools=registry,
            schemas=registry.schemas,
            context=Context(self.transcript, self.emit),
            budget=TurnBudget(limits),
            repeats=Repeats(limits.repeats),
            hooks=more.get("hooks", NoHooks()),
            permit=more.get("permit", self.allow),
            tool_context=lambda call: _context(tmp_path, call, self),
            emit=self.emit,
            room=self.room,
            watching=more.get("watching"),
        )
        self.loop = TurnLoop(self.turn, self.parts)

    def emit(self, event: Event) -> None:
        self.events.append(event)

    async def room(self) -> None:
        pass

    async def allow(self, *judged: Any) -> tuple[Decision, Any]:
        args = judged[2]
        return Decision(verdict="allow"), args

    async def go(self) -> TurnEnded:
        return await asyncio.wait_for(self.loop.run(UserMessage(text="go")), 60)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def history(self) -> list[Any]:
        return Transcript.read(self.transcript.header.id).view()


def _context(cwd: Path, call: str, run: Run) -> ToolContext:
    async def nobody(question: str, options: tuple[str, ...]) -> Answer:
        return Answer(decision="deny")

    return ToolContext(
        cwd=cwd,
        call=call,
        emit=run.emit,
        ask=nobody,
        env={},
        backup=lambda path: None,
        overflow=lambda call, text: cwd / "overflow",
        writing=writing_freely,
        background=None,  # type: ignore[arg-type]
        resolve=lambda text: resolve(cwd, text),
    )


def calling(*names: str, tag: str = "") -> str:
    calls = "".join(f'[[reply.call]]\nname = "{name}"\narguments = {{ tag = "{tag}" }}\n' for name in names)
    return f"[[reply]]\n{calls}"


DONE = '[[reply]]\ntext = "all done"\nusage = { input = 10, output = 5 }\n'


async def test_tools_run_and_their_results_go_back_to_the_model(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    script = calls("read_file", {"file_path": "a.txt"}) + says("it says hello", when="hello")
    run = Run(tmp_path, script)
    ended = await run.go()
    assert ended.text == "it says hello" and ended.iterations == 2
    assert [type(event) for event in run.events if isinstance(event, ToolStarted | ToolEnded)] == [
        ToolStarted,
        ToolEnded,
    ]
    assert isinstance(run.history[2], ToolResult) and "hello" in run.history[2].text


async def test_neighbouring_reads_run_at_once_and_results_keep_their_order(tmp_path: Path) -> None:
    together = asyncio.Barrier(3)

    async def meet(args: NoArgs, context: ToolContext) -> str:
        await asyncio.wait_for(together.wait(), 60)
        return context.call

    run = Run(tmp_path, calling("look", "look", "look") + DONE, TestTool("look", "read", meet))
    await run.go()
    assert [result.text for result in run.history[2:5]] == [result.call for result in run.history[2:5]]


async def test_no_more_reads_run_at_once_than_is_good(tmp_path: Path) -> None:
    at_work, most, full = 0, 0, asyncio.Event()

    async def look(args: NoArgs, context: ToolContext) -> str:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        if at_work >= PARALLEL_READS:
            full.set()
        await asyncio.wait_for(full.wait(), 60)
        await asyncio.sleep(0)
        at_work -= 1
        return "ok"

    await Run(tmp_path, calling(*["look"] * 3 * PARALLEL_READS) + DONE, TestTool("look", "read", look)).go()
    assert most == PARALLEL_READS


async def test_calls_that_change_things_run_one_after_the_other(tmp_path: Path) -> None:
    at_work = 0

    async def alone(args: NoArgs, context: ToolContext) -> str:
        nonlocal at_work
        at_work += 1
        await asyncio.sleep(0)
        assert at_work == 1
        at_work -= 1
        return "ok"

    run = Run(tmp_path, calling("change", "change", "change") + DONE, TestTool("change", "write", alone))
    await run.go()
    assert all(event.ok for event in run.of(ToolEnded)) and len(run.of(ToolEnded)) == 3


async def test_an_unknown_tool_and_malformed_arguments_are_explained_to_the_model(tmp_path: Path) -> None:
    script = reply(call=[{"name": "raed_file"}, {"name": "read_file", "arguments": '{"file_path": '}])
    run = Run(tmp_path, script + DONE)
    await run.go()
    unknown, malformed = run.history[2:4]
    assert "did you mean read_file?" in unknown.text and "not valid JSON" in malformed.text
    assert 'a correct call: read_file {"file_path": "..."}' in malformed.text
    assert [(event.name, event.args) for event in run.of(ToolStarted)] == [("raed_file", {}), ("read_file", {})]
    assert [(event.ok, event.result) for event in run.of(ToolEnded)] == [(False, unknown.text), (False, malformed.text)]


async def test_what_is_not_permitted_does_not_run_and_the_model_is_told(tmp_path: Path) -> None:
    async def deny(call: str, tool: AnyTool, args: Any, access: Access, *_: Any) -> tuple[Decision, Any]:
        return Decision(verdict="deny", reason="bash (execute) requires approval in suggest mode", by="nobody"), args

    run = Run(tmp_path, calling("bash") + DONE, forbidden("bash"), permit=deny)
    ended = await run.go()
    assert ended.outcome == "completed"
    denied = run.of(ToolDenied)[0]
    assert denied.reason == "bash (execute) requires approval in suggest mode" and denied.by == "nobody"
    assert run.of(ToolStarted) == [] and "not allowed" in run.history[2].text


async def test_a_hook_can_block_a_tool_and_add_to_its_result(tmp_path: Path) -> None:
    class Blocking(NoHooks):
        async def pre_tool(self, name: str, args: Any, access: Access) -> str | None:
            return "not on my watch" if args["tag"] == "bad" else None

        async def post_tool(self, *given: Any) -> str:
            result: str = given[4]
            return f"{result}\nchecked"

    script = calling("work", tag="bad") + calling("work", tag="good") + DONE
    run = Run(tmp_path, script, saying("work", text="worked"), hooks=Blocking())
    await run.go()
    assert run.of(ToolDenied)[0].by == "hook" and run.of(ToolDenied)[0].reason == "not on my watch"
    assert run.history[4].text == "worked\nchecked"


async def test_two_empty_replies_are_a_clear_failure(tmp_path: Path) -> None:
    with pytest.raises(EmptyReply, match="empty answer twice"):
        await Run(tmp_path, '[[reply]]\ntext = ""\ntimes = 2\n').go()


async def test_a_reply_cut_by_the_output_limit_is_continued(tmp_path: Path) -> None:
    script = '[[reply]]\ntext = "one "\nfinish = "length"\n[[reply]]\nwhen = "cut off"\ntext = "two"\n'
    run = Run(tmp_path, script)
    ended = await run.go()
    assert ended.text == "one two" and ended.stop_reason == "stop"


async def test_a_reply_that_never_fits_is_reported_and_never_silently_cut(tmp_path: Path) -> None:
    run = Run(tmp_path, '[[reply]]\ntext = "more "\nfinish = "length"\ntimes = "always"\n')
    ended = await run.go()
    assert ended.text == "more " * 4 and ended.stop_reason == "length"
    assert run.of(Warned)[0].code == "output_limit"


async def test_limits_stop_before_the_next_model_call(tmp_path: Path) -> None:
    async def work(args: NoArgs, context: ToolContext) -> str:
        return args.tag

    script = "".join(calling("work", tag=str(number)) for number in range(9))
    run = Run(tmp_path, script, TestTool("work", "write", work), limits=Limits(max_iterations=2))
    with pytest.raises(MaxIterations):
        await run.go()
    assert run.turn.iterations == 2 and len(run.of(ToolEnded)) == 2


async def test_an_interrupted_turn_keeps_its_partial_text_and_a_well_formed_history(tmp_path: Path) -> None:
    run = Run(tmp_path, '[[reply]]\ntext = "one two three four"\npace = 0.05\n')
    task = asyncio.create_task(run.loop.run(UserMessage(text="go")))
    await until(lambda: run.of(TextDelta))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.turn.text and "one two three four".startswith(run.turn.text)
    assert run.history[-1] == AssistantMessage(text=run.turn.text, model="scripted")


async def test_a_turn_interrupted_in_a_tool_answers_every_open_call(tmp_path: Path) -> None:
    started = asyncio.Event()
    cleaned = False

    async def hang(args: NoArgs, context: ToolContext) -> str:
        nonlocal cleaned
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned = True
        return ""

    run = Run(tmp_path, calling("hang", "hang"), TestTool("hang", "execute", hang))
    task = asyncio.create_task(run.loop.run(UserMessage(text="go")))
    await asyncio.wait_for(started.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned
    assert len([message for message in run.history if isinstance(message, ToolResult)]) == 2
    assert totals(run.events).tools[0].ended is not None


async def test_one_call_can_be_stopped_and_the_turn_goes_on(tmp_path: Path) -> None:
    hang = Hanging()
    run = Run(tmp_path, calling("hang") + DONE, hang)
    task = asyncio.create_task(run.go())
    await asyncio.wait_for(hang.started.wait(), 60)
    [call] = run.loop.running
    run.loop.running[call].cancel()
    assert (await task).text == "all done"
    assert "a person stopped this call" in run.history[2].text


async def test_a_window_that_overflows_is_compacted_and_asked_again(tmp_path: Path) -> None:
    script = (
        reply(error={"status": 400, "message": "This model's maximum context length is 1000 tokens"})
        + says("we talked", system="Summarise")
        + says("it fits now")
    )
    run = Run(tmp_path, script)
    for number in range(8):
        run.parts.context.add(UserMessage(text=f"{number}" + "x" * 20_000), "t")
    run.parts.context._most_protected = 1
    ended = await run.go()
    assert ended.text == "it fits now"
    assert run.history[0].text.endswith("we talked")


@pytest.mark.parametrize("protected", [5_000, 100_000], ids=["compacting is not enough", "nothing can be compacted"])
async def test_a_window_that_overflows_all_the_same_is_handed_over_to_a_fresh_one(
    tmp_path: Path, protected: int
) -> None:
    script = (
        says("we talked", system="Summarise", times="always")
        + says("it fits now", when="^.The conversation did not fit")
        + reply(error={"status": 400, "message": "This model's maximum context length is 1000 tokens"}, times="always")
    )
    run = Run(tmp_path, script)
    for number in range(6):
        run.parts.context.add(UserMessage(text=f"{number}" + "x" * 20_000), "t")
    run.parts.context._most_protected = protected
    ended = await run.go()
    assert ended.text == "it fits now" and len(run.of(ContextHandoff)) == 1
    assert len(run.of(ContextCompacted)) == (protected == 5_000)
    assert run.history[0].text.endswith("we talked\n\n[What was asked for last]\ngo") and len(run.history) == 2


@pytest.mark.parametrize(
    "arguments", ["  ", "null", "7", "[]", '"{\\"tag\\": \\"x\\"}"', "[" * 100_000, "{}{}", '{"tag": "\\ud800"}']
)
@pytest.mark.parametrize("kind", ["read", "execute"])
async def test_whatever_stands_for_arguments_the_turn_goes_on(tmp_path: Path, arguments: str, kind: str) -> None:
    call = f'[[reply]]\n[[reply.call]]\nname = "work"\narguments = {msgspec.json.encode(arguments).decode()}\n'
    run = Run(tmp_path, call + DONE, saying("work", kind))
    assert (await run.go()).text == "all done"
    assert all(isinstance(event.args, dict) for event in run.of(ToolStarted))
    assert isinstance(run.history[2], ToolResult)


async def test_a_tool_that_is_slow_to_stop_is_waited_for_however_often_one_interrupts(tmp_path: Path) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def stubborn(args: NoArgs, context: ToolContext) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()
        return ""

    run = Run(tmp_path, calling("stubborn"), TestTool("stubborn", "execute", stubborn))
    task = asyncio.create_task(run.loop.run(UserMessage(text="go")))
    await asyncio.wait_for(started.wait(), 60)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(run.of(ToolEnded)) == 1


async def test_arguments_changed_by_a_person_are_what_hooks_and_readers_see(tmp_path: Path) -> None:
    class Watching(NoHooks):
        seen: list[Access] = []

        async def pre_tool(self, name: str, args: Any, access: Access) -> str | None:
            self.seen.append(access)
            return None

    async def change(call: str, tool: AnyTool, args: Any, access: Access, *_: Any) -> tuple[Decision, Any]:
        return Decision(verdict="allow"), msgspec.structs.replace(args, file_path="other.txt")

    (tmp_path / "other.txt").write_text("other")
    call = '[[reply]]\n[[reply.call]]\nname = "read_file"\narguments = { file_path = "one.txt" }\n'
    run = Run(tmp_path, call + DONE, permit=change, hooks=Watching())
    await run.go()
    [started] = run.of(ToolStarted)
    assert started.paths == Watching.seen[0].paths == (str(tmp_path / "other.txt"),)
    assert started.args["file_path"] == "other.txt"


@pytest.mark.parametrize(("kind", "fails"), [("execute", True), ("other", True), ("read", False), ("write", False)])
async def test_what_a_tool_changed_that_nobody_could_foresee_is_looked_at_after_it(
    tmp_path: Path, kind: str, fails: bool
) -> None:
    order: list[str] = []

    def watching() -> Callable[[], None]:
        order.append("before")

        def check() -> None:
            order.append("after")
            raise Denied("that was theirs")

        return check

    async def does(args: NoArgs, context: ToolContext) -> str:
        order.append("does")
        return "done"

    run = Run(tmp_path, calling("it") + DONE, TestTool("it", kind, does), watching=watching)
    await run.go()
    [ended] = run.of(ToolEnded)
    assert order == (["before", "does", "after"] if fails else ["does"])
    assert ended.ok is not fails and ended.result == ("done\nError: that was theirs" if fails else "done")


async def test_a_result_is_in_history_before_anybody_is_told(tmp_path: Path) -> None:
    kept: list[bool] = []

    class Slow(NoHooks):
        async def post_tool(self, *given: Any) -> str:
            result: str = given[4]
            assert not run.of(ToolEnded)  # while a slow hook runs, no one has been told that it is done
            return result

    class Watched(Run):
        def emit(self, event: Event) -> None:
            if isinstance(event, ToolEnded):
                kept.append(any(isinstance(message, ToolResult) for message in self.history))
            super().emit(event)

    call = '[[reply]]\n[[reply.call]]\nname = "write_file"\narguments = { file_path = "a", content = "b" }\n'
    run = Watched(tmp_path, call + DONE, hooks=Slow())
    await run.go()
    assert kept == [True]


async def test_arguments_that_a_hook_changed_are_judged_and_run_and_its_words_are_added(tmp_path: Path) -> None:
    class Changing(NoHooks):
        async def judge(self, call: str, name: str, args: Any, access: Access) -> HookVerdict:
            return HookVerdict(args={"tag": "changed"}, context="by a hook")

    judged: list[Any] = []

    async def permit(*given: Any) -> tuple[Decision, Any]:
        judged.append((given[2].tag, given[6]))
        return Decision(verdict="deny" if len(judged) > 1 else "allow", reason="no more", by="rule"), given[2]

    async def echo(args: NoArgs, context: ToolContext) -> str:
        return args.tag

    script = calling("work", tag="given") * 2 + DONE
    run = Run(tmp_path, script, TestTool("work", "write", echo), hooks=Changing(), permit=permit)
    await run.go()
    assert judged == [("changed", {"tag": "changed"})] * 2
    assert [m.text for m in run.history if isinstance(m, ToolResult)] == [
        "changed\nby a hook",
        "Error: not allowed: no more\nby a hook",
    ]
    assert run.of(ToolStarted)[0].args == {"tag": "changed"} and run.of(ToolDenied)[0].by == "rule"


async def test_what_nobody_decided_does_not_run(tmp_path: Path) -> None:
    async def undecided(call: str, tool: AnyTool, args: Any, access: Access, *_: Any) -> tuple[Decision, Any]:
        return Decision(verdict="ask", reason="someone must say"), args

    run = Run(tmp_path, calling("bash") + DONE, forbidden("bash"), permit=undecided)
    await run.go()
    assert run.of(ToolDenied)[0].reason == "someone must say" and run.of(ToolStarted) == []
