"""The same task, told in three ways."""

from pathlib import Path

import pytest
from evals.briefs import CRITERIA, told
from evals.tasks import select

from treadle.errors import ConfigError


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
