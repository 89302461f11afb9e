"""Background processes and subagents: started, watched, waited for, stopped; nothing of them is left."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agent.repository import make_repository
from tests.io.sandbox.rooms import WRITES_TOO_MUCH, writing_counts
from tests.waiting import until
from treadle.agent import tasks as tasks_module
from treadle.agent.tasks import AgentType, Assignment, Tasks
from treadle.confinement import ResourceLimits
from treadle.errors import Denied, NotFound, ProviderError, StorageError, Unsupported
from treadle.events import (
    Event,
    FileChanged,
    Task,
    TaskChanged,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Usage,
    Warned,
)
from treadle.session import AgentInfo, Confinement, Session, Watching
from treadle.sessions.session import BaseSession, Turn

ENV = {"PATH": os.environ["PATH"]}


class Helper(BaseSession):
    """A subagent that does what its prompt says."""

    def __init__(self) -> None:
        super().__init__("child", AgentInfo(name="helper"))

    async def _turn(self, turn: Turn) -> TurnEnded:
        self.emit(TextDelta(text="working"))
        self.emit(Usage(model="m", input_tokens=4, cost_usd=0.5))
        if turn.prompt.text == "fail":
            raise ProviderError("no model")
        if turn.prompt.text == "hang":
            await asyncio.Event().wait()
        turn.text = f"did {turn.prompt.text}"
        return turn.ending("completed")


class Setting:
    def __init__(self, tmp_path: Path, limit: int = 4, watching: Watching | None = None) -> None:
        self.events: list[Event] = []
        self.finished: list[Task] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.tasks = Tasks(
            session_id="s",
            emit=self.events.append,
            open_child=self.open_child,
            finished=self.finished.append,
            directory=lambda: str(tmp_path),
            cwd=str(tmp_path),
            room=self.room,
            limit=limit,
            watching=watching,
        )

    async def open_child(self, task_id: str, kind: AgentType, task: Task) -> Session:
        return Helper()

    async def room(self) -> None:
        await self.may_go_on.wait()

    def changes(self, task_id: str) -> list[str]:
        return [e.change for e in self.events if isinstance(e, TaskChanged) and e.task_id == task_id and e.task]

    async def run(self, prompt: str, *, background: bool = False, kind: str | None = None) -> Task:
        return await self.tasks.run_agent(prompt, label=prompt, agent_type=kind, background=background)


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    setting = Setting(tmp_path)
    yield setting
    await setting.tasks.stop_all()


async def ended(setting: Setting, task: Task) -> Task:
    return await asyncio.wait_for(setting.tasks.wait(task.id), 60)


async def test_a_subagent_in_the_foreground_returns_its_answer(setting: Setting) -> None:
    task = await setting.run("count")
    assert task.status == "completed" and task.output == "did count" and task.id == "agent_1"
    assert task.usage and task.usage.input_tokens == 4 and task.usage.cost_usd == 0.5
    assert setting.changes("agent_1") == ["created", "started", "updated", "completed"]
    assert setting.finished == []


async def test_what_a_subagent_uses_is_told_with_its_task_as_parent(setting: Setting) -> None:
    await setting.run("count")
    [usage] = [event for event in setting.events if isinstance(event, Usage)]
    assert usage.parent == "agent_1" and usage.seq == 0
    [text] = [event for event in setting.events if isinstance(event, TaskChanged) and event.change == "text"]
    assert text.data == {"delta": "working"}


async def test_a_background_subagent_is_announced_when_it_ends(setting: Setting) -> None:
    task = await setting.run("count", background=True)
    assert task.status == "running" and task.output is None
    done = await ended(setting, task)
    assert done.status == "completed" and [task.id for task in setting.finished] == ["agent_1"]


async def test_a_failing_subagent_is_a_failed_task_with_its_error(setting: Setting) -> None:
    task = await setting.run("fail")
    assert task.status == "failed" and task.error and task.error.code == "provider_error"


async def test_an_unknown_type_names_those_there_are(setting: Setting) -> None:
    with pytest.raises(NotFound, match="Explore"):
        await setting.run("x", kind="Wizard")


async def test_interrupting_the_one_who_waits_stops_a_task_in_the_foreground(setting: Setting) -> None:
    waiting = asyncio.create_task(setting.run("hang"))
    await until(lambda: "started" in setting.changes("agent_1"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert setting.tasks.get("agent_1").status == "cancelled"


async def test_a_stopped_subagent_keeps_what_it_said_and_used(setting: Setting) -> None:
    await setting.run("hang", background=True)
    await until(lambda: any(isinstance(event, Usage) for event in setting.events))
    task = await setting.tasks.stop("agent_1", "enough")
    assert (task.status, task.output, task.error and task.error.message) == ("cancelled", "working", "enough")
    assert task.usage and task.usage.input_tokens == 4


async def test_a_subagent_whose_words_nobody_takes_can_be_stopped(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_module, "LAST_WORDS", 0.01)
    await setting.run("hang", background=True)
    setting.may_go_on.clear()
    await until(lambda: "started" in setting.changes("agent_1"))
    task = await asyncio.wait_for(setting.tasks.stop("agent_1"), 60)
    assert task.status == "cancelled"


async def test_only_so_many_subagents_run_at_once(tmp_path: Path) -> None:
    setting = Setting(tmp_path, limit=2)
    for _ in range(4):
        await setting.run("hang", background=True)
    await until(lambda: [task.status for task in setting.tasks.list()] == ["running", "running", "queued", "queued"])
    await setting.tasks.stop_all()
    assert {task.status for task in setting.tasks.list()} == {"cancelled"}


async def start(setting: Setting, tmp_path: Path, command: str) -> Task:
    return await setting.tasks.start_process(command, cwd=str(tmp_path), env=ENV)


async def test_a_process_keeps_its_output_and_exit_code(setting: Setting, tmp_path: Path) -> None:
    task = await ended(setting, await start(setting, tmp_path, "echo out; echo err >&2; exit 3"))
    assert task.status == "failed" and task.exit_code == 3 and task.pid
    assert task.log_path and Path(task.log_path).read_text() == "out\nerr\n"


async def test_a_daemon_it_leaves_ends_with_it(setting: Setting, tmp_path: Path) -> None:
    task = await ended(setting, await start(setting, tmp_path, "setsid sleep 1000 & echo $!"))
    assert task.log_path
    pid = int(Path(task.log_path).read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_process_can_be_stopped_with_all_it_started(setting: Setting, tmp_path: Path) -> None:
    task = await start(setting, tmp_path, "echo $$; sleep 1000 | sleep 1000")
    await until(lambda: any(isinstance(event, TaskChanged) and event.change == "text" for event in setting.events))
    stopped = await asyncio.wait_for(setting.tasks.stop(task.id), 60)
    assert stopped.status == "cancelled" and stopped.pid
    with pytest.raises(ProcessLookupError):
        os.kill(stopped.pid, 0)


async def test_output_split_in_the_middle_of_a_character_arrives_whole(setting: Setting, tmp_path: Path) -> None:
    command = r"printf '\xc3'; sleep 0.05; printf '\xa9\n'"
    await ended(setting, await start(setting, tmp_path, command))
    pieces: list[Any] = [e.data["delta"] for e in setting.events if isinstance(e, TaskChanged) and e.change == "text"]
    assert "".join(pieces) == "é\n"


async def test_unknown_tasks_are_said_to_be_unknown(setting: Setting) -> None:
    for use in (setting.tasks.wait, setting.tasks.stop, setting.tasks.forget):
        with pytest.raises(NotFound, match="no task 'x'"):
            await use("x")


async def test_a_stalled_reader_holds_back_agents_and_processes(setting: Setting, tmp_path: Path) -> None:
    setting.may_go_on.clear()
    await setting.run("count", background=True)
    await start(setting, tmp_path, "yes")
    await until(lambda: said(setting))
    for _ in range(100):
        await asyncio.sleep(0)
    assert [event.task_id for event in said(setting)] == ["process_1"]
    setting.may_go_on.set()
    assert (await ended(setting, setting.tasks.get("agent_1"))).status == "completed"
    await setting.tasks.stop_all()


def said(setting: Setting) -> list[TaskChanged]:
    return [event for event in setting.events if isinstance(event, TaskChanged) and event.change == "text"]


async def test_an_endless_log_is_cut(setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module, "LOG_CAP", 1000)
    task = await ended(setting, await start(setting, tmp_path, "yes | head -c 200000"))
    assert task.log_path and Path(task.log_path).read_bytes() == b"y\n" * 500 + tasks_module.CUT


async def test_a_task_stopped_before_it_began_ends_like_any_other(setting: Setting) -> None:
    task = setting.tasks.add(Assignment(prompt="hang", label="x"))
    assert (await setting.tasks.stop(task.id, "no")).status == "cancelled"
    assert setting.changes(task.id)[-1] == "cancelled"


async def test_a_process_that_cannot_start_is_a_failed_task(setting: Setting, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await setting.tasks.start_process("true", cwd=str(tmp_path / "nowhere"), env=ENV)
    [task] = setting.tasks.list()
    assert task.status == "failed" and task.error and "working directory" in task.error.message
    await setting.tasks.stop_all()


async def test_while_a_person_is_asked_the_task_says_so(setting: Setting) -> None:
    await setting.run("hang", background=True)
    with setting.tasks.asking("agent_1"):
        assert setting.tasks.get("agent_1").status == "waiting_permission"
    with setting.tasks.asking(None):
        assert setting.tasks.get("agent_1").status == "running"
    await setting.tasks.stop_all()


async def test_stopping_all_starts_none_that_waited(tmp_path: Path) -> None:
    setting = Setting(tmp_path, limit=1)
    for _ in range(3):
        await setting.run("hang", background=True)
    await setting.tasks.stop_all()
    assert [setting.changes(task.id) for task in setting.tasks.list()][1:] == [["created", "cancelled"]] * 2


async def test_a_process_whose_output_cannot_be_kept_fails_and_does_not_wait_for_ever(setting: Setting) -> None:
    code = """
import asyncio, os, resource, signal, sys
from treadle.agent.tasks import Tasks
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

async def main(place):
    async def room(): pass
    tasks = Tasks(session_id="s", emit=lambda e: None, open_child=None, finished=lambda t: None,
                  directory=lambda: place, cwd=place, room=room)
    task = await tasks.start_process("yes", cwd=place, env=dict(os.environ))
    async with asyncio.timeout(60):
        task = await tasks.wait(task.id)
    print(task.status, task.error.code)

asyncio.run(main(sys.argv[1]))
"""
    place = setting.tasks._cwd
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, place, stdout=asyncio.subprocess.PIPE)
    out, _ = await asyncio.wait_for(child.communicate(), 60)
    assert out == b"failed storage_error\n"


@writing_counts
async def test_a_process_that_comes_up_to_a_limit_of_its_sandbox_says_which(setting: Setting, tmp_path: Path) -> None:
    walls = Confinement(use="on", write=(str(tmp_path),), limits=ResourceLimits(disk=5 << 20))
    task = await setting.tasks.start_process(WRITES_TOO_MUCH, cwd=str(tmp_path), env=ENV, confinement=walls)
    ended = await setting.tasks.wait(task.id)
    assert ended.status == "failed" and ended.error is not None and "more than 5 MB" in ended.error.message


async def test_a_process_stopped_at_once_is_gone(setting: Setting, tmp_path: Path) -> None:
    task = await setting.tasks.start_process("sleep 1000", cwd=str(tmp_path), env=ENV)
    ended = await setting.tasks.stop(task.id)
    assert ended.status == "cancelled" and ended.pid is not None and not Path(f"/proc/{ended.pid}").exists()


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_process_that_changed_what_is_not_ours_fails_when_it_ends(tmp_path: Path, stopped: bool) -> None:
    theirs = tmp_path / "theirs"

    def watching() -> Callable[[], None]:
        def check() -> None:
            if theirs.exists():
                raise Denied("that was theirs")

        assert not theirs.exists()
        return check

    setting = Setting(tmp_path, watching=watching)
    task = await start(setting, tmp_path, "touch theirs; sleep 1000" if stopped else "touch theirs")
    if stopped:
        await until(theirs.exists)
        task = await setting.tasks.stop(task.id)
    else:
        task = await ended(setting, task)
    assert task.status == "failed" and task.error and task.error.message == "that was theirs"
    assert task.exit_code == (None if stopped else 0)


class Isolated(Setting):
    """A setting whose subagent leaves a file where it works."""

    left: tuple[str, str] | None = None

    async def open_child(self, task_id: str, kind: AgentType, task: Task) -> Session:
        assert task.worktree and task.branch and task.cwd == task.worktree != self.tasks._cwd
        if self.left is not None:
            Path(task.cwd, self.left[0]).write_text(self.left[1])
        return Helper()


async def test_a_task_says_where_an_isolated_subagent_worked_as_far_as_that_is_there(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    (repository / "shared.txt").write_text("not committed\n")
    setting = Isolated(repository)
    work = Assignment(prompt="count", label="x", isolation="worktree")

    async def done(*left: str) -> tuple[bool, bool]:
        setting.left = (left[0], left[1]) if left else None
        setting.events.clear()
        task = await ended(setting, setting.tasks.add(work))
        assert task.output == "did count" and task.cwd == (task.worktree or str(repository))
        return task.worktree is not None, task.branch is not None

    assert await done() == (False, False)
    assert await done("new.txt", "new") == (True, True)
    program = '[submodule "m"]\n\tpath = m\n\turl = ./m\n\tupdate = !false\n'
    assert await done(".gitmodules", program) == (True, False)
    first, second = [event for event in setting.events if isinstance(event, Warned)]
    assert first.message.endswith("are not in the worktree of agent_3") and second.code == "worktree"
    assert second.message.startswith("agent_3: ") and "gitmodulesUpdate" in second.message
    log = Path(setting.tasks.get("agent_3").log_path or "").read_text()
    assert log.startswith(f"! {first.message}\n") and f"\n! {second.message}" in log


async def test_a_task_says_what_it_is_and_that_it_was_read(setting: Setting, tmp_path: Path) -> None:
    work = Assignment(prompt="x" * 300, label="l", agent_type="explore", model="m", call="c1", id="mine")
    task = setting.tasks.add(work)
    assert (task.id, task.label, task.call, task.agent_type, task.model) == ("mine", "l", "c1", "Explore", "m")
    assert (task.mode, task.prompt_preview, task.isolation, task.cwd) == ("background", "x" * 200, None, str(tmp_path))
    assert (task.kind, task.parent_session, task.depth, task.status) == ("agent", "s", 1, "running")
    assert task.log_path == str(tmp_path / "mine.log") and task.started_at
    await until(lambda: setting.tasks.get("mine").status == "completed")
    assert setting.tasks.get("mine").unread and setting.tasks.get("mine").completed_at
    setting.tasks.seen("mine")
    setting.tasks.seen("none")
    assert not setting.tasks.get("mine").unread and setting.tasks.has("mine") and not setting.tasks.has("none")
    await setting.tasks.forget("mine")
    assert not setting.tasks.has("mine")
    last = setting.events[-1]
    assert isinstance(last, TaskChanged) and (last.change, last.task_id) == ("closed", "mine")
    assert (await setting.run("count")).mode == "foreground"


class Busy(Helper):
    """One that calls a tool that works and one that does not."""

    async def _turn(self, turn: Turn) -> TurnEnded:
        self.emit(ToolStarted(call="c1", name="bash", args={"command": "ls", "x": 1}))
        self.emit(ToolEnded(call="c1", name="bash", result="a", ok=True))
        self.emit(ToolStarted(call="c2", name="todo", args={}))
        self.emit(ToolEnded(call="c2", name="todo", result="e" * 300, ok=False))
        self.emit(ToolDenied(call="c3", name="write_file", reason="no"))
        self.emit(FileChanged(path="/x", change="added"))
        return turn.ending("completed")


async def test_what_a_subagent_does_is_passed_on_in_a_few_words(setting: Setting) -> None:
    async def open_child(task_id: str, kind: AgentType, task: Task) -> Session:
        return Busy()

    setting.tasks._open_child = open_child
    task = await setting.run("x")
    steps = [(e.change, e.data) for e in setting.events if isinstance(e, TaskChanged) and e.task is None]
    assert steps == [
        ("tool_start", {"tool": "bash", "first": "ls", "call": "c1", "args": {"command": "ls", "x": 1}}),
        ("tool_end", {"tool": "bash", "ok": True, "call": "c1", "result": "a"}),
        ("tool_start", {"tool": "todo", "first": None, "call": "c2", "args": {}}),
        ("tool_end", {"tool": "todo", "ok": False, "call": "c2", "result": "e" * 300, "error": "e" * 200}),
    ]
    passed = [e for e in setting.events if isinstance(e, ToolDenied | FileChanged)]
    assert {(e.parent, e.seq, e.turn) for e in passed} == {(task.id, 0, "")} and len(passed) == 2
    assert task.current_action is None


async def test_words_reach_a_subagent_while_it_works_and_not_before_or_after(setting: Setting) -> None:
    task = setting.tasks.add(Assignment(prompt="hang", label="h"))
    assert not await setting.tasks.send(task.id, "too early")
    await until(lambda: any(isinstance(e, TaskChanged) and e.change == "text" for e in setting.events))
    with pytest.raises(Unsupported):
        await setting.tasks.send(task.id, "now, to one that takes none")
    stopped = await setting.tasks.stop(task.id)
    assert stopped.status == "cancelled" and stopped.error is None, "without a reason there is no error"
    assert not await setting.tasks.send(task.id, "too late")
    assert (await setting.tasks.stop(task.id, "again")).error is None
    with pytest.raises(NotFound) as caught:
        await setting.tasks.send("none", "x")
    assert caught.value.hint == "/agent list shows them"


async def test_a_task_without_a_place_for_its_log_runs_and_says_so(setting: Setting) -> None:
    def directory() -> str:
        raise StorageError("the disk is full")

    setting.tasks._directory = directory
    task = await setting.run("count")
    assert task.status == "completed" and task.log_path is None
    [warned] = [event for event in setting.events if isinstance(event, Warned)]
    assert (warned.message, warned.code) == ("agent_1 keeps no log: the disk is full", "task_log")
