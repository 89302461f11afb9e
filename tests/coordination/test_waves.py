"""The briefs of a wave: complete, and identical up to each task's own part."""

from os.path import commonprefix
from pathlib import Path

import pytest

from treadle.coordination.briefs import WaveTask, build_wave
from treadle.coordination.capsules import Capsules
from treadle.coordination.ledger import Symbols
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError, NotFound

RULES = "# Rules\n\nBe kind.\n\n## Money\n\nNo floats.\n\n### Rounding\n\nTowards the house.\n\n## Time\n\nUTC.\n"
TASKS = [WaveTask("1.1", "do one", "F1,C1", "w2"), WaveTask("1.2", "do two", "F2,C1")]


@pytest.fixture
def planning(tmp_path: Path) -> Planning:
    planning = Planning(str(tmp_path / ".planning"), project=str(tmp_path))
    for name, value in {"F1": "src/a.py", "F2": "src/b.py", "C1": "it is tested"}.items():
        Symbols(planning).set(name, value)
    Capsules(planning).write("w1", "laid the ground")
    Capsules(planning).write("w2", "built on it", depends="w1")
    (tmp_path / "RULES.md").write_text(RULES)
    return planning


def test_every_brief_begins_with_all_that_the_tasks_share_and_ends_with_its_own(planning: Planning) -> None:
    wave = build_wave(planning, TASKS, "RULES.md")
    one, two = wave.brief("1.1"), wave.brief("1.2")
    assert commonprefix([one, two]).startswith(wave.shared)
    for said in ("Be kind.", "No floats.", "F1 = src/a.py", "F2 = src/b.py", "laid the ground", "built on it"):
        assert wave.shared.count(said) == 1
    assert one.removeprefix(wave.shared) == "YOUR TASK 1.1 (see F1, C1, w2):\n  do one\n"
    assert two.removeprefix(wave.shared) == "YOUR TASK 1.2 (see F2, C1):\n  do two\n"


def test_of_invariants_with_a_heading_that_section_is_told(planning: Planning) -> None:
    shared = build_wave(planning, TASKS, "RULES.md#money").shared
    assert "No floats." in shared and "Towards the house." in shared
    assert "Be kind." not in shared and "UTC." not in shared


def test_what_leads_nowhere_refuses_the_whole_wave(planning: Planning) -> None:
    with pytest.raises(NotFound, match="symbol F9"):
        build_wave(planning, [*TASKS, WaveTask("1.3", "x", "F9")])
    with pytest.raises(NotFound, match="w9"):
        build_wave(planning, [WaveTask("1.3", "x", "", "w9")])
    with pytest.raises(NotFound, match="heading #none"):
        build_wave(planning, TASKS, "RULES.md#none")
    with pytest.raises(NotFound, match="no task 2.1"):
        build_wave(planning, TASKS).brief("2.1")
    for tasks in ([], [WaveTask("1", "")], [TASKS[0], TASKS[0]]):
        with pytest.raises(ConfigError):
            build_wave(planning, tasks)
