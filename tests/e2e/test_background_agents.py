"""`treadle -p '/agent ...'` as a script uses it: events, exit codes, and agents that outlive the command."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.installed import started, treadle
from tests.scripts import reply, says

SCRIPT = (
    says("alpha is done", when="alpha", pace=0.1, times="always")
    + says("beta is done", when="beta", times="always")
    + reply(when="gamma", error={"status": 400, "message": "gamma is too hard"}, times="always")
    + says("so far ", when="delta", repeat=2000, pace=0.05)
)


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "script.toml").write_text(SCRIPT)
    return f"scripted:{tmp_path / 'script.toml'}"


def run(model: str, prompt: str, *more: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return treadle("-p", "--model", model, *more, prompt, cwd=cwd)


def brief(line: dict[str, Any]) -> str:
    if line["type"] == "result":
        return "result"
    event = line["event"][line["event"]["type"]]
    body = event.get("task") or event.get("group") or {"id": event.get("taskId")}
    return f"{event['type'].removeprefix('background_')} {body['id']}"


def test_every_step_of_a_group_comes_before_the_result(model: str, tmp_path: Path) -> None:
    done = run(model, '/agent parallel a:"alpha" b="beta"', "--output-format", "stream-json", cwd=tmp_path)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and done.stderr == ""
    told = [line for line in map(brief, lines) if "text_delta" not in line]
    begun = [f"task_{change} {task}" for task in ("agent_1", "agent_2") for change in ("created", "started", "updated")]
    assert told == [
        *begun,
        "job_group_created group_1",
        "job_group_updated group_1",
        "task_completed agent_2",
        "job_group_updated group_1",
        "task_completed agent_1",
        "job_group_completed group_1",
        "result",
    ]
    results = lines[-2]["event"]["background_job_group_event"]["group"]["results"]
    assert [(r["taskId"], r["label"], r["status"], r["summary"]) for r in results] == [
        ("agent_1", "a", "completed", "alpha is done"),
        ("agent_2", "b", "completed", "beta is done"),
    ]
    assert lines[-1]["subtype"] == "success" and "(2/2 completed, 0 failed" in lines[-1]["result"]


@pytest.mark.parametrize("command", ['parallel a:"delta" b:"beta"', "run delta"])
def test_an_interrupted_command_gives_what_its_agents_had_said(command: str, model: str, tmp_path: Path) -> None:
    argv = ["-p", f"/agent {command}", "--model", model, "--output-format", "stream-json"]
    with started(*argv, cwd=tmp_path, stderr=None) as process:
        assert process.stdout is not None
        heard: list[str] = []
        while "task_text_delta agent_1" not in heard or ("beta" in command and "task_completed agent_2" not in heard):
            heard.append(brief(json.loads(process.stdout.readline())))
        process.send_signal(signal.SIGINT)
        *_, result = map(json.loads, process.stdout)
        assert process.wait(60) == 0
    assert (result["subtype"], result["terminal_reason"]) == ("success", "aborted_streaming")
    assert "so" in result["result"].split() and ("beta is done" in result["result"]) == ("beta" in command)
