"""`treadle agents add`, `login` and `refresh`, with a played npm and an agent that plays a recording."""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.drivers.test_install import npm as npm
from tests.drivers.test_registry import told
from treadle.cli.agents import _answers, _settings, agents
from treadle.drivers.acp.options import SignIn
from treadle.drivers.registry import ListedAgent
from treadle.io.paths import config_file, state_dir


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


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("junie", "set agents.junie.speaks to acp"),
        ("goose", "--agent goose then finds goose on PATH"),
        ("amp-acp", "--agent amp then finds amp-acp on PATH"),
        ("qwen-code", "qwen has a card of its own"),
        ("claude", "claude has a card of its own"),
        ("nothing", "lists no agent 'nothing'"),
    ],
)
def test_what_cannot_be_added_says_why(name: str, why: str) -> None:
    code, out = run("add", name)
    assert code != 0 and why in out


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


def test_only_agents_of_this_protocol_are_signed_in_to_from_here() -> None:
    code, out = run("login", "codex")
    assert code != 0 and "codex is not signed in to from here" in out


def test_a_damaged_copy_of_the_registry_is_named(tmp_path: Path) -> None:
    path = Path(state_dir(), "agents", "registry.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"date": ')
    code, out = run("add")
    assert code != 0 and f"{path} is damaged" in out and "treadle agents refresh FILE" in out
    (tmp_path / "registry.json").write_bytes(told(npx={"package": "@a/odd@1.2.3"}))
    assert run("refresh", str(tmp_path / "registry.json"))[0] == 0 and run("add")[0] == 0


@pytest.mark.parametrize(("name", "how"), [("claude", "run `claude`"), ("native", "treadle models use")])
def test_an_agent_that_is_signed_in_to_elsewhere_says_where(name: str, how: str) -> None:
    code, out = run("login", name)
    assert code != 0 and how in out


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
