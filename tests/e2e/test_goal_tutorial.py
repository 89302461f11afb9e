"""The tutorial "From an issue to a landed goal" is typed word by word, and its plan answered in another terminal."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import DONE, git, model, says, write

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs/tutorials/from-an-issue-to-a-landed-goal.md").read_text()
TYPED = [line.removeprefix("$ ") for line in PAGE.splitlines() if line.startswith("$ ")]
PLAN = {
    "done": "test -f rows.csv",
    "verify": "true",
    "orders": [
        {"id": "rows", "task": "Write rows.csv.", "claims": ["rows.csv"], "accept": ["test -f rows.csv"]},
        {"id": "docs", "task": "Write export.md.", "claims": ["export.md"], "after": ["rows"]},
    ],
}


@pytest.fixture
def env(nothing_left: None, tmp_path: Path) -> dict[str, str]:
    scripted = model(
        tmp_path,
        says("Accepted.", when="Accepted", times="always"),
        says(
            "It is met.",
            {"name": "give_answer", "arguments": {"met": True, "why": "rows.csv is there"}},
            when="You judge whether",
            turn=1,
        ),
        says("The plan.", {"name": "give_answer", "arguments": PLAN}, when="You plan the work", turn=1),
        says("I write.", write("rows.csv", "a,b"), when="Write rows.csv", turn=1),
        says("I write.", write("export.md", "So."), when="Write export.md", turn=1),
        DONE,
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "TREADLE_MODEL": scripted, "PS1": ""}


def typed(line: str, repository: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=repository,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_word_by_word(env: dict[str, str], repository: Path) -> None:
    (repository / "issue.md").write_text("Orders can be exported as CSV.\n")
    up, plan, check, run, report = TYPED
    assert "http://" in typed(up, repository, env)
    assert "planned by" in typed(plan, repository, env)
    assert "wave 2" in typed(check, repository, env)
    with subprocess.Popen(
        ["bash", "-c", run],
        cwd=repository,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        said = ""
        while "treadle fleet answer" not in said:
            line = running.stdout.readline()
            assert line, said
            said += line
        found = re.search(r"goal (\w+) begins", said), re.search(r"treadle fleet answer (\w+)", said)
        assert found[0] and found[1] and "asks: Carry out this plan?" in said and "task: " in said
        name = found[0][1]
        typed(f"treadle fleet answer {found[1][1]} allow", repository, env)
        said += running.stdout.read()
    assert running.returncode == 0 and "met: " in said, said
    assert git(repository, "show", "main:rows.csv") == "a,b"
    typed(report.replace("2e6", name[:5]), repository, env)
    assert "Orders can be exported as CSV" in (repository / "report.md").read_text()
    assert "rows" in typed("treadle blame rows.csv:1", repository, env)
    typed("treadle fleet down", repository, env)
