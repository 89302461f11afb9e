"""Tasks started together: the order of what they say, waiting, and what they come to."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.test_tasks import Setting
from tests.waiting import until
from treadle.agent.tasks import DETAIL, Assignment, Groups, UnknownGroup, succeeded, summary
from treadle.errors import NotFound
from treadle.events import FINISHED, ErrorInfo, Task, TaskChanged, TaskGroup, TaskGroupChanged


class Together(Setting):
    def __init__(self, tmp_path: Path, limit: int = 4) -> None:
        super().__init__(tmp_path, limit)
        self.groups = Groups(self.tasks, self.events.append, "s")

    def start(self, *prompts: str) -> TaskGroup:
        return self.groups.start([Assignment(prompt=prompt, label=prompt) for prompt in prompts])

    def told(self) -> list[str]:
        """What was said, without the texts: `agent_1 created`, `group_1 updated 1`."""
        lines = []
        for event in self.events:
            if isinstance(event, TaskChanged) and event.task is not None:
                lines.append(f"{event.task_id} {event.change}")
            elif isinstance(event, TaskGroupChanged):
                lines.append(f"{event.group.id} {event.change} {len(event.group.results)}")
        return lines


@pytest.fixture
def together(tmp_path: Path) -> Together:
    return Together(tmp_path)


async def test_members_are_announced_before_their_group_and_end_before_it_says_so(together: Together) -> None:
    group = together.start("one", "two")
    begun = ["created", "started", "updated"]
    assert together.told() == [
        *(f"agent_1 {change}" for change in begun),
        *(f"agent_2 {change}" for change in begun),
        "group_1 created 0",
        "group_1 updated 0",
    ]
    done = await asyncio.wait_for(together.groups.wait(group.id), 60)
    assert together.told()[-4:] == [
        "agent_1 completed",
        "group_1 updated 1",
        "agent_2 completed",
        "group_1 completed 2",
    ]
    assert succeeded(done) and done.completed_at and [task.output for task in done.results] == ["did one", "did two"]
    assert together.start("three").id == "group_2"


async def test_what_is_over_the_limit_waits_and_is_still_part_of_the_group(tmp_path: Path) -> None:
    together = Together(tmp_path, limit=1)
    group = together.start("one", "two", "three")
    assert [task.status for task in together.tasks.list()] == ["running", "queued", "queued"]
    assert succeeded(await asyncio.wait_for(together.groups.wait(group.id), 60))


async def test_one_failed_member_makes_the_whole_a_failure_and_the_others_still_finish(together: Together) -> None:
    done = await asyncio.wait_for(together.groups.wait(together.start("one", "fail").id), 60)
    assert done.status == "completed" and not succeeded(done)
    lines = summary(done).splitlines()
    assert lines[0] == "Background job group group_1: completed (1/2 completed, 1 failed, 0 cancelled, 0 pending)"
    assert lines[1].startswith("[completed] one agent_1: did one (output: ")
    assert lines[2].startswith("[failed] fail agent_2: no model (output: ")


async def test_stopping_a_group_cancels_all_of_it_with_the_reason(tmp_path: Path) -> None:
    together = Together(tmp_path, limit=1)
    group = together.start("hang", "hang")
    await until(lambda: any(isinstance(e, TaskChanged) and e.change == "text" for e in together.events))
    done = await asyncio.wait_for(together.groups.stop(group.id, "enough"), 60)
    assert {task.status for task in done.results} == {"cancelled"} and "enough" in summary(done)
    assert together.told()[-1] == "group_1 completed 2" and not succeeded(done)


async def test_a_member_that_was_closed_still_counts(together: Together) -> None:
    group = together.start("one", "hang")
    await together.tasks.wait("agent_1")
    await together.tasks.forget("agent_1")
    await together.tasks.stop("agent_2")
    done = await asyncio.wait_for(together.groups.wait(group.id), 60)
    assert [task.status for task in done.results] == ["completed", "cancelled"]


async def test_nothing_is_started_when_one_type_is_unknown(together: Together) -> None:
    with pytest.raises(NotFound, match="Wizard"):
        together.groups.start(
            [Assignment(prompt="x", label="x"), Assignment(prompt="y", label="y", agent_type="Wizard")]
        )
    assert together.events == []


async def test_an_unknown_group_is_said_to_be_unknown(together: Together) -> None:
    with pytest.raises(UnknownGroup, match="^Unknown background job group: group_9$"):
        await together.groups.wait("group_9")


def test_long_answers_stand_whole_below_the_lines() -> None:
    long = "first line\n\n" + "x" * 300
    tasks = [
        Task(id="a_1", kind="agent", label="a", status="completed", output=long, branch="treadle/a", worktree="/w"),
        Task(id="a_2", kind="agent", label="b", status="completed", output="short"),
        Task(id="a_3", kind="agent", label="c", status="completed"),
    ]
    group = TaskGroup(id="g", tasks=("a_1", "a_2", "a_3", "a_4"), status="running", results=tuple(tasks))
    text = summary(group)
    assert "(3/4 completed, 0 failed, 0 cancelled, 1 pending)" in text
    assert "(branch: treadle/a in /w)" in text and "[completed] c a_3: no answer" in text
    assert text.endswith(f"\n\n## a (a_1)\n\n{long}") and "## b" not in text


ACTIONS = st.lists(
    st.sampled_from(["one", "failing", "hanging", "group", "step", "steps", "stop first", "stop last", "forget first"]),
    max_size=25,
)


@given(ACTIONS, st.integers(1, 3))
def test_whatever_is_done_every_task_and_group_ends_exactly_once(actions: list[str], limit: int) -> None:
    async def play() -> None:
        with TemporaryDirectory() as directory:
            together = Together(Path(directory), limit)
            for action in actions:
                await act(together, action)
                assert sum(task.status == "running" for task in together.tasks.list()) <= limit
            await asyncio.wait_for(together.tasks.stop_all(), 60)
            check(together)

    asyncio.run(play())


async def act(together: Together, action: str) -> None:
    alive = [task.id for task in together.tasks.list()]
    if action in ("one", "failing", "hanging"):
        prompt = {"one": "count", "failing": "fail", "hanging": "hang"}[action]
        together.tasks.add(Assignment(prompt=prompt, label=action))
    elif action == "group":
        together.start("count", "hang", "fail")
    elif action == "stop first" and alive:
        await together.tasks.stop(alive[0])
    elif action == "stop last" and alive:
        await together.tasks.stop(alive[-1], "the last")
    elif action == "forget first" and alive:
        await together.tasks.forget(alive[0])
    else:
        for _ in range(1 if action == "step" else 30):
            await asyncio.sleep(0)


def check(together: Together) -> None:
    changes: dict[str, list[str]] = {}
    for line in together.told():
        name, change, *_ = line.split()
        changes.setdefault(name, []).append(change)
    for name, said in changes.items():
        assert said[0] == "created" and said.count("created") == 1
        ends = [change for change in said if change in FINISHED]
        assert len(ends) == 1 and said[-1] == ends[0], (name, said)
    for group in together.groups._groups.values():
        assert group.status == "completed" and len(group.results) == len(group.tasks)


async def test_a_detached_group_has_the_name_that_it_was_given(together: Together) -> None:
    group = together.groups.start([Assignment(prompt="one", label="one")], group_id="mine", detached=True)
    assert (group.id, group.wait_policy, group.parent_session, group.label) == (
        "mine",
        "detached",
        "s",
        "agent parallel",
    )
    assert "mine" in together.groups and "group_1" not in together.groups and group.completed_at is None
    done = await asyncio.wait_for(together.groups.wait("mine"), 60)
    assert together.groups.get("mine") == done and done.completed_at == done.updated_at
    assert together.start("two").wait_policy == "wait_all"
    with pytest.raises(UnknownGroup):
        together.groups.get("none")


def test_a_line_has_the_error_or_the_answer_and_where_the_changes_are() -> None:
    def line(**fields: Any) -> str:
        task = Task(id="a", kind="agent", label="l", **{"status": "completed", **fields})
        return summary(TaskGroup(id="g", tasks=("a",), status="completed", results=(task,))).splitlines()[1]

    assert line(output="x" * DETAIL) == f"[completed] l a: {'x' * DETAIL}"
    assert line(output="x" * (DETAIL + 1)) == f"[completed] l a: {'x' * (DETAIL - 1)}…"
    failed = ErrorInfo(code="c", message="why\nnot")
    assert line(status="failed", error=failed, output="said") == "[failed] l a: why not"
    assert line(worktree="/w") == "[completed] l a: no answer (in /w)"
    assert line(log_path="/l", branch="b") == "[completed] l a: no answer (output: /l)"


def test_a_group_succeeds_only_when_it_is_over_and_all_of_it_did() -> None:
    done, failed = (Task(id=one, kind="agent", label="l", status=one) for one in ("completed", "failed"))  # type: ignore[arg-type]
    states = [("completed", (done,)), ("running", (done,)), ("completed", (done, failed))]
    groups = [TaskGroup(id="g", tasks=("a",), status=status, results=results) for status, results in states]  # type: ignore[arg-type]
    assert [succeeded(group) for group in groups] == [True, False, False]
