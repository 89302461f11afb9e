"""From what was typed to what a session is opened with."""

import os
from pathlib import Path

import pytest

from treadle.cli.options import RunOptions, _split
from treadle.errors import ConfigError
from treadle.session import Reasoning


def test_nothing_typed_is_the_default_of_the_way_it_was_run() -> None:
    spec = RunOptions().spec(answers=True, default_mode="suggest")
    assert spec.mode == "suggest" and spec.cwd == os.getcwd() and spec.answers and spec.start.resume is None


def test_options_reach_the_session() -> None:
    options = RunOptions(
        permission_mode="acceptEdits",
        max_turns=3,
        max_budget_usd=0.5,
        timeout=9,
        allowed_tools=("Bash(git *),Write", "Read"),
        denied_tools=("Write(.env*)",),
        continue_last=True,
        fork_session=True,
        no_session_persistence=True,
    )
    spec = options.spec(answers=False, default_mode="suggest")
    assert spec.mode == "auto-edit" and spec.start.resume == "" and spec.start.fork and not spec.start.persist
    assert spec.rules.allow == ("Bash(git *)", "Write", "Read") and spec.rules.deny == ("Write(.env*)",)
    assert (spec.limits.max_iterations, spec.limits.max_cost_usd, spec.limits.max_seconds) == (3, 0.5, 9)


def test_an_unknown_mode_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match="suggest"):
        RunOptions(permission_mode="wild").spec(answers=False, default_mode="suggest")


def test_commas_inside_a_rule_belong_to_it() -> None:
    assert _split(("Bash(a, b),Read ", " ,")) == ("Bash(a, b)", "Read")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (RunOptions(continue_last=True, resume="x"), "two sessions"),
        (RunOptions(fork_session=True), "needs a session"),
        (RunOptions(session_id="n", resume="x"), "for a new session"),
    ],
)
def test_options_that_contradict_each_other_are_refused(typed: RunOptions, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        typed.spec(answers=False, default_mode="suggest")


def test_a_copy_may_be_given_its_id() -> None:
    spec = RunOptions(session_id="n", resume="x", fork_session=True).spec(answers=False, default_mode="suggest")
    assert (spec.start.id, spec.start.resume, spec.start.fork) == ("n", "x", True)


def test_thinking_servers_and_bareness_reach_the_session(tmp_path: Path) -> None:
    (tmp_path / "servers.json").write_text('{"mcpServers": {"shop": {"command": "sell"}}}')
    options = RunOptions(
        max_thinking_tokens=2048, mcp_config=(str(tmp_path / "servers.json"),), strict_mcp_config=True, bare=True
    )
    spec = options.spec(answers=False, default_mode="suggest")
    assert spec.thinking == Reasoning(tokens=2048) and not spec.instructions.project
    assert spec.tools.servers == {"shop": {"command": "sell"}} and spec.tools.only_servers
    assert RunOptions(thinking="disabled").spec(answers=False, default_mode="suggest").thinking == Reasoning(tokens=0)


def test_hooks_of_settings_are_refused_where_they_are_not_run() -> None:
    settings = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}'
    options = RunOptions(claude_settings=settings)
    with pytest.raises(ConfigError, match="run with -p only"):
        options.spec(answers=True, default_mode="suggest")
    assert options.spec(answers=True, default_mode="suggest", hooks=True).mode == "suggest"
