"""Background processes and subagents: started, watched, waited for, stopped; nothing of them is left."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import WRITES_TOO_MUCH, writing_counts
from tests.waiting import until
from treadle.agent import tasks
from treadle.agent.tasks import AgentType, Assignment, Tasks
from treadle.confinement import ResourceLimits
from treadle.errors import Denied, NotFound, ProviderError, Unsupported
from treadle.events import (
    Event,
    Task,
    TaskChanged,
    TextDelta,
    TurnEnded,
    Usage,
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


async def start(setting: Setting, tmp_path: Path, command: str) -> Task:
    return await setting.tasks.start_process(command, cwd=str(tmp_path), env=ENV)


async def test_only_so_many_subagents_run_at_once(tmp_path: Path) -> None:
    setting = Setting(tmp_path, limit=2)
    for _ in range(3):
        await setting.run("hang", background=True)
    await until(lambda: [task.status for task in setting.tasks.list()] == ["running", "running", "queued"])
    await setting.tasks.stop_all()


async def test_an_endless_log_is_cut(setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "LOG_CAP", 1000)
    task = await ended(setting, await start(setting, tmp_path, "yes | head -c 200000"))
    assert task.log_path and Path(task.log_path).read_bytes() == b"y\n" * 500 + tasks.CUT


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


@writing_counts
async def test_a_process_that_comes_up_to_a_limit_of_its_sandbox_says_which(setting: Setting, tmp_path: Path) -> None:
    walls = Confinement(use="on", write=(str(tmp_path),), limits=ResourceLimits(disk=5 << 20))
    task = await setting.tasks.start_process(WRITES_TOO_MUCH, cwd=str(tmp_path), env=ENV, confinement=walls)
    ended = await setting.tasks.wait(task.id)
    assert ended.status == "failed" and ended.error is not None and "more than 5 MB" in ended.error.message


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
