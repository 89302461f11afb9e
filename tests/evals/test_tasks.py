"""Every task is checked: it refuses the repository as it was and accepts it solved, however it is told."""

from pathlib import Path

import pytest
from evals.briefs import CRITERIA, told
from evals.checking import check, shell, workspace
from evals.task import KINDS, SIZES, Task
from evals.tasks import ALL, select

from tests.tiers import spread
from treadle.errors import ConfigError


@pytest.mark.parametrize("task", spread(ALL, quick=0, slow=8), ids=lambda task: task.name)
async def test_a_check_refuses_an_idle_agent_and_accepts_the_solution(task: Task) -> None:
    with workspace(task) as repository:
        if task.setup:
            await shell(task.setup, repository)
        assert not (await check(task, repository, "I did it.")).passed
        answer = await shell(task.solution, repository)
        verdict = await check(task, repository, answer)
        assert verdict.passed, verdict.why


def test_there_are_thirty_in_three_sizes_and_of_every_kind() -> None:
    assert [len(select(size)) for size in SIZES] == [10, 10, 10]
    assert {task.kind for task in ALL} == set(KINDS)
    assert len({task.name for task in ALL}) == len(select("all")) == 30


def test_a_set_may_be_names_and_an_unknown_one_is_refused() -> None:
    assert [task.name for task in select("tiny-fix, tiny-json")] == ["tiny-fix", "tiny-json"]
    assert select("small,tiny,tiny-fix") == (*select("small"), *select("tiny"))
    for wrong in ("huge", "tiny-fix,nothing", ""):
        with pytest.raises(ConfigError):
            select(wrong)


def test_a_verbatim_brief_restates_the_plan_and_a_delta_brief_does_not(tmp_path: Path) -> None:
    task, other = select("tiny")[:2]
    plain, verbatim, delta = (told(task, brief, tmp_path) for brief in ("", "verbatim", "delta"))
    assert plain == task.prompt
    assert task.prompt in verbatim and other.prompt in verbatim
    assert task.prompt in delta and other.prompt not in delta
    assert all(text in verbatim and text in delta for text in CRITERIA.values())
    assert len(plain) < len(delta) < len(verbatim) / 2
    assert list(tmp_path.iterdir()) == []


def test_another_kind_of_brief_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        told(select("tiny")[0], "loud", tmp_path)
