import os

import pytest

from treadle.agent.providers.known import LocalSettings
from treadle.agent.providers.names import model_settings


def test_threads_are_as_many_as_cores_unless_set() -> None:
    assert LocalSettings().cores == len(os.sched_getaffinity(0))
    assert model_settings({"local": {"threads": 1, "context": 4096}}).local == LocalSettings(threads=1, context=4096)
    assert LocalSettings(threads=3).cores == 3


def test_where_the_system_does_not_say_which_cores_are_ours_there_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert (LocalSettings().cores, LocalSettings(threads=3).cores) == (2, 3)
