"""The first minute: what is used when nothing was chosen, how a person picks, and `treadle models use`."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.plain_text import PlainTextOutput

from tests.cli.chat.terminal import ChatTerminal
from tests.cli.choosing.conftest import once, typed
from tests.installed import treadle
from treadle.agent.providers.names import VENDORS
from treadle.cli.choice import choose_row, settle
from treadle.cli.models import models
from treadle.cli.options import RunOptions
from treadle.errors import NoModel, NotFound
from treadle.io.paths import config_file
from treadle.settings import config

OURS = RunOptions(agent="native")


async def test_the_only_way_is_taken_and_named_in_a_pipe_and_at_a_terminal(
    nothing: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    looking = "treadle: No model is configured yet; looking for keys, agents and servers...\n"
    for talks, before in ((False, ""), (True, looking)):
        found = await settle(OURS, talks=talks)
        assert (found.agent, found.model) == ("native", "openai:gpt-6-sol")
        assert capsys.readouterr().err == (
            f"{before}treadle: using openai:gpt-6-sol: OPENAI_API_KEY is set. `treadle models use openai:gpt-6-sol`"
            " makes it the default; --model NAME or --agent NAME: another.\n"
        )
    assert config.load(".").settings.model is None, "nothing was kept"


async def test_of_several_a_person_picks_one_which_is_kept_and_a_script_is_refused(
    nothing: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    names = f"anthropic:{VENDORS['anthropic'].default}, openai:gpt-6-sol"
    with pytest.raises(NoModel, match=f"several could be used here: {names}") as refused:
        await settle(OURS, talks=False)
    assert "choose one with `treadle models use NAME`" in str(refused.value)
    with typed(""), pytest.raises(NoModel, match="No model was chosen") as left:
        await settle(OURS, talks=True, plain=True)
    assert "choose later with `treadle models use`" in str(left.value) and config.load(".").settings.model is None
    capsys.readouterr()
    with typed("2\n"):
        assert (await settle(OURS, talks=True, plain=True)).model == "openai:gpt-6-sol"
    out, err = capsys.readouterr()
    assert (
        "2  openai:gpt-6-sol" in out and "  OPENAI_API_KEY is set" in out and "`treadle models use` changes it." in err
    )
    assert "the server at http://127.0.0.1:9/v1: " in err and config.load(".").settings.model == "openai:gpt-6-sol"


def test_in_a_pipe_nothing_found_is_one_line_or_one_record(bare: dict[str, str]) -> None:
    done = once(bare)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("treadle: No model is configured")
    for form in ("json", "stream-json"):
        done = once(bare, "--output-format", form)
        record = json.loads(done.stdout)
        assert done.returncode == 2 and record["is_error"] and record["error_code"] == "no_model"
        assert "No model is configured" in record["errors"][0]


@pytest.fixture
def claude(tmp_path: Path, bare: dict[str, str]) -> Callable[..., dict[str, str]]:
    """An environment in which Claude Code has these settings of the user's."""
    place = tmp_path / "claude"
    place.mkdir()

    def write(**settings: Any) -> dict[str, str]:
        (place / "settings.json").write_text(json.dumps(settings))
        return {**bare, "CLAUDE_CONFIG_DIR": str(place)}

    return write


AGENT = [{"hooks": [{"type": "agent", "prompt": "x"}]}]


def test_a_hook_of_claude_code_that_cannot_be_run_stops_only_our_own_agent_and_only_if_it_might_forbid(
    claude: Callable[..., dict[str, str]], script: Path, agent: str
) -> None:
    env = {**claude(hooks={"Stop": AGENT}), "TREADLE_MODEL": f"scripted:{script}"}
    done = once(env)
    assert (done.returncode, done.stdout) == (0, "I heard.\n") and "a hook of Stop of the type" in done.stderr
    claude(hooks={"PreToolUse": AGENT})
    done = once(env)
    assert done.returncode == 1 and "may forbid something" in done.stderr and "--setting-sources" in done.stderr
    assert once(env, "--setting-sources", "project").stdout == "I heard.\n"
    assert treadle("agents", "native", env=env).returncode == 0
    outside = {**bare_of(env), "TREADLE_AGENT": agent}
    assert "might forbid" not in once(outside).stderr


def bare_of(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name != "TREADLE_MODEL"}


def test_a_file_of_claude_code_that_allows_everything_is_named(
    claude: Callable[..., dict[str, str]], script: Path
) -> None:
    env = {**claude(permissions={"defaultMode": "bypassPermissions"}), "TREADLE_MODEL": f"scripted:{script}"}
    [line] = once(env).stderr.splitlines()
    assert "everything is allowed without a question" in line and "settings.json" in line
    assert once(env, "--permission-mode", "suggest").stderr == ""
    assert once(env, "--setting-sources", "project").stderr == ""


@pytest.mark.long
async def test_what_was_chosen_is_remembered_and_a_flag_or_variable_overrides_it(
    bare: dict[str, str], script: Path, agent: str
) -> None:
    done = treadle("models", "use", f"scripted:{script}", env=bare)
    assert done.returncode == 0 and config_file() in done.stdout
    done = once(bare)
    assert (done.returncode, done.stdout, done.stderr) == (0, "I heard.\n", "")
    assert treadle("models", "use", agent, env=bare).returncode == 0
    found = config.load(".").settings
    assert found.agent == agent and found.model == f"scripted:{script}" and agent in found.agents
    done = once(bare, "--output-format", "json", "--verbose")
    assert done.returncode == 0, done.stderr
    assert once({**bare, "TREADLE_AGENT": "nonsense"}).stderr.startswith("treadle: there is no agent 'nonsense'")
    assert once(bare, "--model", f"scripted:{script}").stdout == "I heard.\n"
    overridden = once({**bare, "TREADLE_MODEL": "scripted:/nothing"})
    assert overridden.returncode != 0 and "/nothing" in overridden.stderr
    both = once({**bare, "TREADLE_MODEL": "scripted:/nothing", "TREADLE_AGENT": agent})
    assert both.stdout == "I heard.\n"
    assert treadle("models", "use", "local", env=bare).returncode == 1  # it is not on this machine


def use(*words: str, fails: bool = False) -> Result:
    return CliRunner().invoke(models, ["use", *words], catch_exceptions=not fails)


def test_a_name_is_kept_as_a_model_or_as_an_agent_and_programs_are_told(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a")
    done = use("anthropic:x", "--json")
    assert json.loads(done.output) == [{"name": "anthropic:x", "because": "named", "chosen": True}]
    found = config.load(".").settings
    assert (found.agent, found.model) == (None, "anthropic:x")
    with pytest.raises(NotFound, match="Claude Code is not installed"):
        use("claude", fails=True)
    (nothing / "claude").write_text("#!/bin/sh\n")
    (nothing / "claude").chmod(0o755)
    done = use("claude")
    assert done.output == f"claude is used from now on (saved in {config_file()}).\n" and done.exit_code == 0
    assert config.load(".").settings.agent == "claude" and use("acp:cat").exit_code == 0
    assert config.load(".").settings.agent == "acp:cat" and use("anthropic").exit_code == 0
    assert config.load(".").settings.agent is None


@pytest.mark.slow
def test_at_a_terminal_one_of_several_is_picked_with_the_arrows_and_kept(
    terminal: Callable[..., ChatTerminal], agent: str
) -> None:
    chat = terminal(ANTHROPIC_API_KEY="a", OPENAI_API_KEY="b")
    for shown in ("Which one should Treadle use", "anthropic:claude", "openai:gpt", "helper"):
        chat.until(shown)
    chat.keys("\x1b[B\x1b[B\r")
    chat.until("helper is used from now on")
    chat.ready()
    chat.say("are you there")
    chat.until("I heard")
    assert config.load(".").settings.agent == agent


class Screen:
    def __init__(self, keys: PipeInput) -> None:
        self.keys, self.text = keys, io.StringIO()

    def shown(self) -> str:
        return self.text.getvalue()


@pytest.fixture
def screen() -> Iterator[Screen]:
    with create_pipe_input() as keys:
        made = Screen(keys)
        with create_app_session(input=keys, output=PlainTextOutput(made.text)):
            yield made


ROWS = [f"row {number}" for number in range(12)]


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("\r", 0),
        ("\x1b[B\r", 1),
        ("jj\x0e\t\r", 4),
        ("jjk\r", 1),
        ("\x1b[A\r", 11),
        ("\x10\x1b[B\r", 0),
        ("3", 2),
        ("9", 8),
        ("q", None),
        ("\x03", None),
        ("\x04", None),
    ],
)
async def test_keys_move_and_choose_around_the_ends(screen: Screen, keys: str, chosen: int | None) -> None:
    screen.keys.send_text(keys)
    assert await choose_row("Which?", ROWS) == chosen


@pytest.mark.parametrize(("text", "chosen"), [("2\n", 1), ("7\nx\n 1 \n", 0), ("\n", None), ("", None), ("3", None)])
async def test_without_a_screen_a_number_is_typed_until_it_is_one(
    text: str, chosen: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with typed(text):
        assert await choose_row("Which?", ["a", "b"], plain=True) == chosen
    assert capsys.readouterr().out.startswith("Which?\n1  a\n2  b\n1-2, or nothing to leave: ")
