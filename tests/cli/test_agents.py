"""`treadle agents`, with agents that play recordings and a played npm."""

import asyncio
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.drivers.test_install import npm as npm
from tests.drivers.test_registry import told
from tests.installed import treadle
from treadle.cli.agents import FoundAgent, _answers, _line, _settings, agents, greeted, installed
from treadle.drivers.acp.options import SignIn
from treadle.drivers.registry import ListedAgent
from treadle.io.paths import config_file, state_dir
from treadle.settings.config import AgentSettings

RECORDINGS = Path(__file__).parents[1] / "drivers"
REPLAY = f"{sys.executable} -m treadle.testing.replay"


@pytest.fixture
def settings(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    path = Path(config_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    claude = RECORDINGS / "claude" / "recordings" / "text.jsonl"
    path.write_text(
        f"""
[agents.claude]
command = "{REPLAY} {claude}"
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
    assert CliRunner().invoke(agents, ["absent"]).exit_code == 1
    done = CliRunner().invoke(agents, ["claude", "--ask"])
    assert done.exit_code == 0 and "driven by stream-json" in done.output


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
def test_our_own_agent_answers_and_only_what_is_named_is_looked_at() -> None:
    done = CliRunner().invoke(agents, ["native", "--json"])
    (own,) = json.loads(done.output)
    assert (own["name"], own["answers"], own["path"], done.exit_code) == ("native", True, sys.executable, 0)
    assert CliRunner().invoke(agents, ["look", "native"]).output == CliRunner().invoke(agents, ["native"]).output


@pytest.mark.usefixtures("settings")
async def test_only_agents_that_are_installed_are_greeted_and_asking_for_versions_greets_none(tmp_path: Path) -> None:
    found = {each.name: each for each in await greeted(str(tmp_path), 60.0)}
    assert found["claude"].answers is True and found["broken"].answers is False
    assert not {"native", "absent"} & set(found)
    known = {"mine": AgentSettings(speaks="claude", command=f"{sys.executable} -c 'print(7)'")}
    versions = {each.name: each for each in await asyncio.to_thread(installed, known)}
    assert versions["mine"].answers is None and versions["mine"].path == sys.executable and "native" not in versions


FOUND: dict[str, Any] = {"name": "a", "title": "A", "how": "acp", "path": "/a", "version": "2", "recorded": ("1", "3")}


@pytest.mark.parametrize(
    ("agent", "line"),
    [
        (
            {"path": None, "version": "", "error": "not installed: get it"},
            "a          -          not installed: get it",
        ),
        ({"answers": True}, "a          2          answers"),
        ({"answers": True, "account": ""}, "a          2          answers, not signed in"),
        ({"answers": True, "account": "me", "models": ("x", "y")}, "a          2          answers, me; x, y"),
        ({"answers": False, "error": "odd"}, "a          2          does not answer: odd"),
        ({"answers": False}, "a          2          "),
        ({"answers": True, "newer": True}, "a          2          (newer than our recordings: 3) answers"),
        ({"answers": True, "older": True}, "a          2          (older than our recordings: 1) answers"),
        ({"answers": True, "untested": "why"}, "a          2          (untested) answers"),
    ],
)
def test_an_agent_is_one_line(agent: dict[str, Any], line: str) -> None:
    assert " ".join(_line(FoundAgent(**{**FOUND, **agent}), whole=False).split()) == " ".join(line.split())


def test_all_that_is_known_of_an_agent_is_shown_when_it_is_named() -> None:
    able = {"tools": "native", "hooks": "unsupported", "undo": "native"}
    found = FoundAgent(**FOUND, answers=True, capabilities=able, notes=("a note",), untested="why")  # type: ignore[arg-type]
    assert _line(found, whole=True).splitlines()[1:] == [
        "  /a",
        "  driven by acp",
        "  native       tools, undo",
        "  unsupported  hooks",
        "  a note",
        "  why",
    ]


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(agents, [*words])
    return done.exit_code, done.output + (str(done.exception) if done.exception else "")


def test_what_can_be_added_is_listed_with_its_day_and_its_pin() -> None:
    code, out = run("add")
    assert code == 0 and "the registry of 2026-08-20" in out
    assert (
        "grok-build" in out
        and "completed a turn 2026-11-17" in out
        and "greeted 2026-11-16: it opens no session" in out
        and "a download: not fetched" in out
    )


def test_an_agent_is_fetched_greeted_and_in_the_settings(npm: Path, tmp_path: Path) -> None:
    recorded = Path(__file__).parents[1] / "drivers" / "qwen" / "recordings" / "text.jsonl"
    (tmp_path / "registry.json").write_bytes(told(npx={"package": "@a/odd@1.2.3", "args": ["x"], "env": {"A": "1"}}))
    assert run("refresh", str(tmp_path / "registry.json"))[0] == 0
    played = f'#!/bin/sh\\nexec {sys.executable} -m treadle.testing.replay {recorded} "$@"\\n'
    script = npm.parent / "bin" / "npm"
    script.write_text(
        script.read_text()
        + f'printf \'{played}\' > "$place/node_modules/.bin/odd-acp"; chmod +x "$place/node_modules/.bin/odd-acp"\n'
        + 'ln -s odd-acp "$place/node_modules/.bin/odd"\n'
        + 'printf \'{"bin": {"odd": "y"}}\' > "$place/node_modules/@a/odd/package.json"\n'
    )
    code, out = run("add", "odd", "--json")
    found = json.loads(out)
    assert code == 0 and found["error"] == "" and found["version"] == "1.2.3", out
    settings = tomllib.loads(Path(config_file()).read_text())["agents"]["odd"]
    assert settings == {"speaks": "acp", "arguments": ["x"], "command": found["command"], "set": {"A": "1"}}
    code, out = run("login", "odd")
    assert code == 0 and "openai" in out


def test_a_damaged_copy_of_the_registry_is_named(tmp_path: Path) -> None:
    path = Path(state_dir(), "agents", "registry.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"date": ')
    code, out = run("add")
    assert code != 0 and f"{path} is damaged" in out and "treadle agents refresh FILE" in out
    (tmp_path / "registry.json").write_bytes(told(npx={"package": "@a/odd@1.2.3"}))
    assert run("refresh", str(tmp_path / "registry.json"))[0] == 0 and run("add")[0] == 0


def test_what_is_kept_of_an_agent_is_its_command_and_what_no_card_has() -> None:
    listed = ListedAgent(
        name="odd", title="Odd", version="1", source="npm", arguments=("x",), writes=("~/w",), sets={"A": "1"}
    )
    assert _settings(listed, "/a b") == {
        "command": "'/a b'",
        "speaks": "acp",
        "arguments": ["x"],
        "writes": ["~/w"],
        "set": {"A": "1"},
    }
    bare = ListedAgent(name="odd", title="Odd", version="1", source="npm")
    assert _settings(bare, "/a") == {"command": "/a", "speaks": "acp", "arguments": []}
    known = ListedAgent(name="goose", title="Goose", version="1", source="npm", arguments=("x",))
    assert _settings(known, "/a") == {"command": "/a"}


def test_how_to_sign_in_is_said_only_where_there_is_a_way() -> None:
    assert _answers("odd", ()) == "it answers; try: treadle -p --agent odd 'hello'"
    signing = _answers("odd", (SignIn(id="k", name="Key"),))
    assert signing == "it answers; `treadle agents login odd` shows how to sign in; try: treadle -p --agent odd 'hello'"
