"""Tasks started together: the order of what they say, waiting, and what they come to."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.test_tasks import Setting
from treadle.agent.tasks import Assignment, Groups
from treadle.errors import NotFound
from treadle.events import FINISHED, TaskChanged, TaskGroup, TaskGroupChanged


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


async def test_nothing_is_started_when_one_type_is_unknown(together: Together) -> None:
    with pytest.raises(NotFound, match="Wizard"):
        together.groups.start(
            [Assignment(prompt="x", label="x"), Assignment(prompt="y", label="y", agent_type="Wizard")]
        )
    assert together.events == []


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
