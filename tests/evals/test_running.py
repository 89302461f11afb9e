"""The harness with the scripted model: what passes, what fails, what it counts."""

import json
from pathlib import Path

import pytest
from evals.__main__ import main
from evals.results import Configuration, load
from evals.running import attempt
from evals.tasks import select

from tests.scripts import reply, says

FIX = (
    reply(
        when="gives wrong results",
        usage={"input": 100, "output": 20},
        call=[
            {"name": "read_file", "arguments": {"file_path": "calc.py"}},
            {"name": "edit_file", "arguments": {"file_path": "calc.py", "old_string": "a - b", "new_string": "a + b"}},
        ],
    )
    + says("Fixed.", when="Edited", usage={"input": 120, "output": 5})
    + says("I did it.", times="always")
)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.toml"
    path.write_text(FIX)
    return f"scripted:{path}"


async def test_an_attempt_is_judged_by_its_effect(script: str, tmp_path: Path) -> None:
    fix, create = select("tiny-fix,tiny-create")
    done = await attempt(fix, Configuration(model=script), 1, tmp_path / "t" / "fix.txt")
    assert done.passed and done.outcome == "completed" and done.steps == 2
    assert (done.input_tokens, done.output_tokens, done.tool_calls, done.tool_errors) == (220, 25, 2, 0)
    assert "CALL edit_file" in (tmp_path / "t" / "fix.txt").read_text()
    idle = await attempt(create, Configuration(model=script), 1)
    assert not idle.passed and "greet" in idle.why


async def test_an_agent_that_cannot_be_opened_has_failed_the_task(tmp_path: Path) -> None:
    [fix] = select("tiny-fix")
    made = await attempt(fix, Configuration(model="scripted:/nowhere"), 1)
    assert not made.passed and "/nowhere" in made.error and made.outcome == "failed"


def test_the_command_runs_two_configurations_and_compares_them(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "r.json"
    arguments = ["run", "--model", script, "--tasks", "tiny-fix", "--out", str(out), "--against", "brief=delta"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "B / A =" in said or "no task was passed by both" in said
    assert load(out).attempts[0].passed
    assert load(out.with_stem("r-against")).configuration.brief == "delta"
    assert json.loads(out.read_text())["format"] == 1
    assert main(["compare", str(out), str(out)]) == 0
    assert "B / A = 1.00" in capsys.readouterr().out
    assert main(["show", str(out)]) == 0 and main(["list"]) == 0


@pytest.mark.parametrize("arguments", [["--against", "colour=red"], ["--against", "small"], ["--tasks", "none"]])
def test_a_mistake_on_the_command_line_is_one_line(
    arguments: list[str], script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--model", script, *arguments]) == 1
    assert capsys.readouterr().err.startswith("evals: ")
