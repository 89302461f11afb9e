"""`treadle agents`, with agents that play recordings."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.installed import treadle
from tests.stand_ins import REPLAY
from treadle.cli.agents import FoundAgent, agents, greeted, installed
from treadle.cli.doctor import agent_finding
from treadle.io.paths import config_file
from treadle.settings.config import AgentSettings

RECORDINGS = Path(__file__).parents[1] / "drivers"


@pytest.fixture
def settings(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    path = Path(config_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    claude = RECORDINGS / "claude" / "recordings" / "text.jsonl"
    path.write_text(
        f"""
[agents.claude]
command = "{sys.executable} {REPLAY} {claude}"
[agents.broken]
speaks = "claude"
command = "{sys.executable} -c 'raise SystemExit(3)'"
[agents.absent]
speaks = "codex"
command = "no-such-program"
"""
    )


@pytest.mark.usefixtures("settings")
def test_the_list_says_what_each_says_of_itself() -> None:
    done = CliRunner().invoke(agents, ["--json"])
    assert done.exit_code == 0, done.output
    found = {each["name"]: each for each in json.loads(done.stdout)}
    assert found["native"]["answers"] is True
    assert found["claude"]["answers"] is True and found["claude"]["version"]
    assert found["claude"]["capabilities"]["permissions"] == "native"
    assert found["broken"]["answers"] is False and "exited with code 3" in found["broken"]["error"]
    assert found["absent"]["path"] is None and "not installed" in found["absent"]["error"]
    assert found["pi"]["path"] is None and "npm install" in found["pi"]["error"]


@pytest.mark.usefixtures("settings")
def test_an_agent_that_is_named_and_does_not_answer_is_a_failure() -> None:
    broken = CliRunner().invoke(agents, ["broken"])
    assert broken.exit_code == 1 and broken.output.startswith("broken     3.")
    assert "does not answer: " in broken.output and "\n  driven by " in broken.output
    assert "\n  model: key inside: none of ANTHROPIC_API_KEY, " in broken.output, "also where it does not start"
    assert "\n  key: outside with ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN; inside with a sign-in" in broken.output
    assert CliRunner().invoke(agents, ["absent"]).exit_code == 1
    done = CliRunner().invoke(agents, ["claude", "--ask"])
    assert done.exit_code == 0 and "driven by stream-json" in done.output and "  sees ANTHROPIC_" in done.output


@pytest.mark.parametrize(("answers", "account"), [(False, None), (True, ""), (True, "a person"), (None, None)])
def test_doctor_says_where_the_key_of_each_agent_is_whatever_its_state(
    answers: bool | None, account: str | None
) -> None:
    state: Any = {"answers": answers, "account": account, "error": "broken", "model_wire": "key inside: why"}
    assert "; key inside: why" in agent_finding(FoundAgent(name="x", title="X", how="h", path="/x", **state)).says


def test_losses_are_told_with_their_reasons() -> None:
    done = CliRunner().invoke(agents, ["--losses", "codex", "--over", "worker"])
    assert done.exit_code == 0
    told = {line.split()[0]: line for line in done.output.splitlines()}
    assert "dropped" in told["Usage.cost_usd"] and "no prices" in told["Usage.cost_usd"]
    as_json = CliRunner().invoke(agents, ["--losses", "native", "--over", "text", "--json"])
    assert {row["level"] for row in json.loads(as_json.stdout)} == {"native", "dropped"}


def test_an_agent_that_is_not_installed_is_named_with_the_line_that_installs_it(tmp_path: Path) -> None:
    env = {**os.environ, "PATH": str(tmp_path)}
    done = treadle("-p", "hi", "--agent", "codex", "--output-format", "json", env=env, cwd=tmp_path)
    assert done.returncode == 1 and "npm install -g @openai/codex" in done.stderr
    assert "npm install" in json.loads(done.stdout)["errors"][0]


def test_agents_that_say_nothing_have_one_time_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("treadle.cli.agents.WHOLE_SECONDS", 0.5)
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\nexec sleep 600\n")
    mute.chmod(0o755)
    settings = {f"mute{number}": AgentSettings(speaks="acp", command=str(mute)) for number in range(7)}
    silent = [each for each in installed(settings, greet=True) if each.name.startswith("mute")]
    assert len(silent) == 7 and all(each.answers is False and "no answer within" in each.error for each in silent)


@pytest.mark.usefixtures("settings")
async def test_only_agents_that_are_installed_are_greeted_and_asking_for_versions_greets_none(tmp_path: Path) -> None:
    found = {each.name: each for each in await greeted(str(tmp_path), 60.0)}
    assert found["claude"].answers is True and found["broken"].answers is False
    assert not {"native", "absent"} & set(found)
    known = {"mine": AgentSettings(speaks="claude", command=f"{sys.executable} -c 'print(7)'")}
    versions = {each.name: each for each in await asyncio.to_thread(installed, known)}
    assert versions["mine"].answers is None and versions["mine"].path == sys.executable and "native" not in versions


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(agents, [*words])
    return done.exit_code, done.output + (str(done.exception) if done.exception else "")


@pytest.mark.usefixtures("settings")
def test_the_ways_to_sign_in_are_listed_for_an_agent_that_names_them() -> None:
    with open(config_file(), "a") as settings:
        recorded = RECORDINGS / "qwen" / "recordings" / "text.jsonl"
        settings.write(f'[agents.odd]\nspeaks = "acp"\ncommand = "{sys.executable} {REPLAY} {recorded}"\n')
    code, out = run("login", "odd")
    assert code == 0 and "openai" in out
    code, out = run("login", "claude")
    assert code == 1 and "Treadle cannot sign in to claude" in out
