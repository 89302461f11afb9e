"""The tables: which agent a program is, and that each table is valid."""

import subprocess
import sys
from pathlib import Path

import pytest

from treadle.io import paths
from treadle.terminal.detectors import NAMES, by_command, named
from treadle.terminal.detectors.table import COMMON_DIALOGS, Detector, Sign


@pytest.mark.parametrize("name", NAMES)
def test_every_table_can_see_questions_work_and_errors(name: str) -> None:
    detector = named(name)
    assert isinstance(detector, Detector) and detector.name == name == by_command([name])
    assert all(sign.pattern.search("") is None for sign in detector.signs), "a sign that an empty screen has"
    states = {sign.state for sign in detector.signs}
    assert {"question", "working", "error"} <= states and (name == "pi" or "permission" in states)


def test_a_persons_own_table_counts_although_ours_of_that_name_was_read_before(state_home: Path) -> None:
    """As in a supervisor that is forked from a process which has read ours."""
    own = Path(paths.config_file()).parent / "detectors"
    own.mkdir(parents=True)
    (own / "pi.toml").write_text("name = 'mine'\nknown_by = ['x']\nblock = 'x'\nsigns = []\n[box]\nfirst = '> '\n")
    code = "from treadle.terminal import detectors as d; d.preload(); print(d.named('pi').name, d.named('kimi').name)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["mine", "kimi"]


def test_a_dialog_that_no_table_knows_is_a_question() -> None:
    assert {(sign.state, sign.where) for sign in COMMON_DIALOGS} == {("question", "dialog")}
    for text in ("Press Enter to confirm", "(use enter to select)", "↵ choose", "Esc to go back", "❯ 1. Yes"):
        assert any(sign.pattern.search(text) for sign in COMMON_DIALOGS), text
    assert not any(sign.pattern.search("⠋ esc to cancel") for sign in COMMON_DIALOGS)
    sign = Sign("idle", "title", "^a")
    assert sign.pattern is sign.pattern and sign.pattern.search("b\na") and repr(sign) == "idle when title has '^a'"
