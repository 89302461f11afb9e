"""A plan's commands, tried before anything is done."""

from pathlib import Path

import pytest

from tests.fleet.repositories import git
from treadle.goals.check import check, stopping, tried
from treadle.landing import train
from treadle.landing.bench import Bench
from treadle.workspace import checkouts

PLAN = """goal = "g"
done = "test -e a.txt"
verify = "false"
[[order]]
id = "one"
task = "t"
claims = ["tests/test_new.py"]
accept = ["test -e a.txt", "no-such-program-here", "test -e new.txt; touch mess.txt; exit 1"]
[[order]]
id = "two"
task = "t"
after = ["one"]
already = true
accept = ["test -e a.txt", "sh tests/test_new.py", "sh tests/test_lost.py"]
[[order]]
id = "three"
task = "t"
claims = ["tests/test_lost.py"]
"""


@pytest.mark.slow
async def test_what_passes_already_fails_now_or_cannot_run_is_told_with_its_line_and_nothing_is_left(
    repository: Path, nothing_left: None
) -> None:
    found = check(PLAN, str(repository), budget_required=False)
    assert found.plan is not None and not found.mistakes
    notes = [(note.line, note.place, note.what) for note in await tried(PLAN, found.plan, str(repository))]
    assert [note[:2] for note in notes] == [
        (2, "done"),
        (3, "verify"),
        (8, "order[0].accept[0]"),
        (8, "order[0].accept[1]"),
        (14, "order[1].accept[2]"),
    ]
    assert "passes already" in notes[0][2] and "nothing could land" in notes[1][2]
    assert "passes already" in notes[2][2] and "cannot be run" in notes[3][2]
    assert notes[4][2] == "tests/test_lost.py is not there, and neither two nor what it comes after claims it"
    assert git(repository, "status", "--porcelain") == ""
    user = checkouts.around(str(repository))
    bench = Bench(train.name_of(user.common, "main"), user, "main")
    verify, missing = [each async for each in stopping(found.plan, bench)]
    assert verify.startswith("`false` fails on main as it is, so nothing could land:")
    assert missing.startswith("`no-such-program-here`, which accepts one, cannot be run:\n") and "found" in missing
