"""Groups that outlive the process that started them: real processes, killed at every place."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agent.commands.conftest import ran
from tests.agent.conftest import Opened
from tests.scripts import calls, reply, says
from tests.waiting import until
from treadle.agent import detached
from treadle.agent.detached import Detached, every, find
from treadle.agent.session import NativeSession
from treadle.agent.tools.base import writing_freely
from treadle.errors import StorageError
from treadle.events import AnyEvent, Event, Task, TaskChanged, TaskGroupChanged, encode
from treadle.io.process import table
from treadle.io.process.registry import keeper_trees
from treadle.session import CommandResult, Decision, Guards

SCRIPT = (
    says("there are three", when="count", times="always")
    + says("one two three four five six seven", when="slowly", pace=0.25, times="always")
    + says("one two", when="forever", delay=600, times="always")
    + reply(when="break", error={"status": 400, "message": "too hard"}, times="always")
    + says("done at once", when="hurry", times="always")
    + calls(
        "bash",
        {"command": "until [ -e go ]; do sleep 0.02; done; echo let go"},
        when="hold on",
        text="one two",
        times="always",
    )
    + says("three four five six seven", when="let go", pace=0.01, times="always")
)


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    yield
    for group in every():
        await asyncio.wait_for(group.close(group.group.id), 60)
    await until(lambda: not runners())


def runners() -> list[int]:
    """The processes of detached groups of this test."""
    root = detached.root()
    return [p.pid for p in table.processes() if any(word.startswith(root) for word in table.command_line(p.pid))]


async def detach(session: NativeSession, members: str) -> Detached:
    result = await session.command("agent", f"parallel --detach {members}")
    assert isinstance(result, CommandResult) and result.ok, result
    found = find(result.data["group"])
    assert found is not None
    return found


async def waited(session: NativeSession, group: str, ok: bool = True) -> str:
    return await asyncio.wait_for(ran(session, f"agent wait {group}", ok), 60)


def events(session: NativeSession) -> list[AnyEvent]:
    return session.events(after=0, observer=True).ready()


@pytest.mark.slow
async def test_it_runs_on_when_its_session_has_closed_and_another_gets_the_answers(opened: Opened) -> None:
    first = await opened(SCRIPT, mode="yolo")
    shown = await ran(first, 'agent parallel --detach a:"count" b:"hold on"')
    [group] = every()
    a, b = group.group.tasks
    assert shown == f"Started agent jobs:\na: {a}\nb: {b}\nThey run on by themselves: /agent wait {group.group.id}"
    told = [e.change for e in events(first) if isinstance(e, TaskChanged)]
    assert told[:6] == ["created", "started", "updated"] * 2
    assert [e.group.wait_policy for e in events(first) if isinstance(e, TaskGroupChanged)][0] == "detached"
    await first.close()

    second = await opened(SCRIPT)
    assert f"{b}  running" in await ran(second, "agent list")
    waiting = asyncio.create_task(waited(second, group.group.id))
    await until(lambda: any(isinstance(event, TaskChanged) for event in events(second)))
    Path(first.spec.cwd, "go").touch()
    shown = await waiting
    assert f"{group.group.id}: completed (2/2 completed, 0 failed, 0 cancelled, 0 pending)" in shown
    assert f"[completed] b {b}: three four five six seven (output: " in shown
    assert [e.change for e in events(second) if isinstance(e, TaskGroupChanged)][-1] == "completed"
    assert await waited(second, group.group.id) == shown, "and the one who asks again is told again"
    read = await ran(second, f"agent read {b}")
    assert read.startswith(f"{b} (b): completed\n\none two\n● bash until ")
    assert read.endswith("\n  let go\nthree four five six seven")


@pytest.mark.slow
async def test_kill_minus_nine_of_the_starter_changes_nothing(opened: Opened, tmp_path: Path, work: Path) -> None:
    script = tmp_path / "killed.toml"
    script.write_text(SCRIPT)
    code = f"""
import asyncio, sys
from treadle import SessionSpec, find_agent
async def main():
    session = await find_agent().open(SessionSpec(cwd={str(work)!r}, model="scripted:{script}"))
    result = await session.command("agent", 'parallel --detach a:"slowly" b:"count"')
    print(result.data["group"], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    group = (await asyncio.to_thread(process.stdout.readline)).strip()
    process.kill()
    process.communicate()
    session = await opened(SCRIPT)
    assert "(2/2 completed" in await waited(session, group)


async def test_kill_minus_nine_of_the_runner_is_a_failure_that_says_so(opened: Opened) -> None:
    session = await opened(SCRIPT)
    group = await detach(session, 'a:"forever" b:"count"')
    a, b = group.group.tasks
    await until(lambda: (group.read(), {task.id: task.status for task in group.tasks}[b] == "completed")[1])
    [pid] = {task.pid for task in group.tasks}
    assert pid is not None
    waiting = asyncio.create_task(waited(session, group.group.id, ok=False))
    await asyncio.sleep(0)
    os.kill(pid, signal.SIGKILL)
    shown = await waiting
    assert f"[failed] a {a}: the process that ran it was killed" in shown
    assert f"[completed] b {b}: there are three" in shown
    await until(lambda: not runners())


async def test_whatever_ends_its_guard_ends_all_of_it(opened: Opened) -> None:
    session = await opened(SCRIPT)
    group = await detach(session, 'a:"forever"')
    [tree] = [tree for tree in keeper_trees() if group.directory in tree.command]
    os.kill(tree.owner, signal.SIGKILL)
    await until(lambda: not runners())
    assert "its process was told to end" in await waited(session, group.group.id, ok=False)


async def test_a_judge_that_lives_in_this_process_cannot_be_left_behind(opened: Opened) -> None:
    for guards in (Guards(judge=lambda access: Decision(verdict="allow")), Guards(writing=writing_freely)):
        session = await opened(SCRIPT, guards=guards)
        shown = await ran(session, 'agent parallel --detach a:"count"', ok=False)
        assert "--detach does not work in this session" in shown and "leave out --detach" in shown


async def test_what_was_given_in_the_environment_is_used_and_not_written_down(opened: Opened, work: Path) -> None:
    call = '[[reply]]\nwhen = "tell"\n[[reply.call]]\nname = "bash"\narguments = { command = "echo $LOOM; pwd" }\n'
    script = call + '[[reply]]\nwhen = "jacquard"\ntext = "it is set"\n'
    session = await opened(script, mode=None, env={"LOOM": "jacquard", "LOOM_TOKEN": "s3cret-value"})
    group = await detach(session, 'a:"tell"')
    assert "it is set" in await waited(session, group.group.id)
    for path in Path(group.directory).rglob("*"):
        assert not path.is_file() or b"s3cret-value" not in path.read_bytes(), path


async def test_modules_in_the_project_are_not_taken_for_ours(opened: Opened, work: Path) -> None:
    for name in ("treadle", "msgspec", "asyncio", "signal"):
        (work / f"{name}.py").write_text("raise SystemExit('taken over')")
    session = await opened(SCRIPT)
    group = await detach(session, 'a:"count"')
    assert "there are three" in await waited(session, group.group.id)


async def test_it_is_stopped_from_another_session_and_nonsense_costs_nobody_anything(opened: Opened) -> None:
    group = await detach(await opened(SCRIPT, mode="yolo"), 'a:"forever" b:"hold on"')
    requests = Path(group.directory, "requests.jsonl")
    requests.write_bytes(b"\n{}\n" + b"[" * 100_000 + b'\n{"do":"stop","id":"x"}\n\xff\n1\n')
    other = await opened(SCRIPT)
    a, b = group.group.tasks
    assert "has ended" in await ran(other, f"agent stop {a} enough")
    assert await ran(other, f"agent send {b} let go now") == f"{b} hears it at its next step."
    Path(group.plan.cwd, "go").touch()
    assert "(1/2 completed, 0 failed, 1 cancelled" in await waited(other, group.group.id, ok=False)


async def test_one_that_has_not_begun_hears_nothing_and_the_sender_is_told(opened: Opened) -> None:
    session = await opened(SCRIPT)
    group = await detach(session, " ".join(f'{name}:"forever"' for name in "abcde"))
    assert [task.status for task in group.tasks].count("queued") == 1
    last = group.group.tasks[-1]
    assert await ran(session, f"agent send {last} go", ok=False) == f"{last} is queued"


# On disk...


def written(group: str, plan: bytes, lines: bytes = b"") -> str:
    directory = os.path.join(detached.root(), group)
    os.makedirs(directory)
    Path(directory, "plan.json").write_bytes(plan)
    Path(directory, "events.jsonl").write_bytes(lines)
    return directory


def plan(**more: object) -> bytes:
    values = {"format": 1, "group": "group_x", "parent_session": "s", "created": 1.0, "cwd": "/", "members": []}
    return msgspec.json.encode(values | more)


MEMBERS = [{"prompt": "x", "label": name, "id": f"agent_{name}"} for name in "ab"]


def snapshot(name: str, status: str, **more: Any) -> bytes:
    task = Task(id=f"agent_{name}", kind="agent", label=name, status=status, cwd="/", **more)  # type: ignore[arg-type]
    return encode(TaskChanged(change="updated", task_id=task.id, task=task)) + b"\n"


async def test_what_a_killed_runner_had_not_finished_has_failed_and_what_was_closed_is_not_listed() -> None:
    lines = snapshot("a", "completed") + snapshot("b", "running", current_action="reads")
    lines += encode(TaskChanged(change="text", task_id="agent_b")) + b"\n"
    directory = written("group_x", plan(members=MEMBERS), lines)
    group = Detached(directory)
    assert [(task.id, task.status) for task in group.tasks] == [("agent_a", "completed"), ("agent_b", "failed")]
    lost = group.tasks[1]
    assert lost.error is not None and lost.error.message == "the process that ran it was killed"
    assert lost.current_action is None and group.group.results == tuple(group.tasks)
    heard: list[Event] = []
    assert await group.wait(heard.append) == group.group and heard == group.events and len(heard) == 3
    assert not group.send("agent_b", "hello")
    await group.close("agent_a")
    assert [task.id for task in group.tasks] == ["agent_b"] and os.path.exists(directory)
    await group.close("agent_b")
    assert not os.path.exists(directory)


def test_what_is_damaged_or_of_a_newer_version_is_left_out_and_untouched() -> None:
    for name, content in {"a": b"", "b": b"[]", "c": plan(format=2), "d": b"\xff{"}.items():
        directory = written(name, content)
        with pytest.raises(StorageError):
            Detached(directory)
        assert Path(directory, "plan.json").read_bytes() == content
    assert every() == []


async def test_permissions_go_along_and_nobody_can_be_asked(opened: Opened, work: Path) -> None:
    call = (
        '[[reply]]\nwhen = "go"\n[[reply.call]]\nname = "write_file"\narguments = { file_path = "x", content = "" }\n'
    )
    session = await opened(call + '[[reply]]\ntext = "refused"\n', mode="suggest", answers=True)
    group = await detach(session, 'a:"go"')
    assert "refused" in await waited(session, group.group.id) and not (work / "x").exists()
