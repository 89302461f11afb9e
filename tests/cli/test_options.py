"""From what was typed, also in files and in JSON, to what a session is opened with."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from treadle import __version__
from treadle.cli.options import (
    RunOptions,
    claude_settings,
    run_options,
    servers,
    serving_options,
    take,
)
from treadle.errors import ConfigError
from treadle.io.paths import config_file
from treadle.session import Reasoning, SessionSpec


def test_options_reach_the_session() -> None:
    options = RunOptions(
        permission_mode="acceptEdits",
        max_turns=3,
        max_budget_usd=0.5,
        timeout=9,
        allowed_tools=("Bash(git *),Write", " Bash(a, b) ,", "Read"),
        denied_tools=("Write(.env*)",),
        continue_last=True,
        fork_session=True,
        no_session_persistence=True,
    )
    spec = options.spec(answers=False, default_mode="suggest")
    assert spec.mode == "auto-edit" and spec.start.resume == "" and spec.start.fork and not spec.start.persist
    assert spec.rules.allow == ("Bash(git *)", "Write", "Bash(a, b)", "Read") and spec.rules.deny == ("Write(.env*)",)
    assert (spec.limits.max_iterations, spec.limits.max_cost_usd, spec.limits.max_seconds) == (3, 0.5, 9)


def spec(**options: Any) -> SessionSpec:
    return RunOptions(agent="native", **options).spec(answers=False, default_mode="suggest")


def settings(text: str) -> None:
    path = Path(config_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("options", "place", "value"),
    [
        ({"safe_mode": True}, "instructions.project", False),
        ({"safe_mode": True}, "tools.only_servers", True),
        ({"bare": True}, "tools.only_servers", False),
        ({"disable_slash_commands": True}, "instructions.skills", ()),
        ({"disable_slash_commands": True}, "instructions.commands", False),
        ({"restricted": True}, "tools.denied", ("bash", "web_fetch")),
        ({"restricted": True, "tools": "Bash"}, "tools.denied", ()),
        ({"restricted": True, "setting_sources": "user"}, "instructions.sources", ()),
        ({"setting_sources": "user,project"}, "instructions.sources", ("user", "project")),
        ({"tools": "default"}, "tools.offered", None),
        ({"tools": ""}, "tools.offered", ()),
        ({"tools": "Read, bash,mcp__x__y"}, "tools.offered", ("read_file", "bash", "mcp__x__y")),
        ({"resume": "x", "resume_session_at": "u"}, "start.at", "u"),
        ({"continue_last": True}, "start.resume", ""),
        ({"session_id": "s", "name": "n"}, "start.id", "s"),
        ({"session_id": "s", "resume": "x", "fork_session": True}, "start.id", "s"),
        ({"session_id": "s", "name": "n"}, "start.name", "n"),
        ({"dangerously_skip_permissions": True, "permission_mode": "plan"}, "mode", "yolo"),
        ({"autocompact": "200k"}, "extra", {"context_tokens": 200_000}),
        ({"autocompact": "auto"}, "extra", {}),
        ({"trust": True}, "trusted", True),
        ({"thinking": "adaptive"}, "thinking", Reasoning(effort="medium")),
        ({"thinking": "adaptive", "effort": "high"}, "thinking", Reasoning(effort="high")),
        ({"thinking": "adaptive", "max_thinking_tokens": 0}, "thinking", Reasoning(tokens=0)),
        ({"thinking": "enabled"}, "thinking", Reasoning()),
        ({"thinking": "disabled", "effort": "high"}, "thinking", Reasoning(tokens=0)),
        ({"system_prompt": "a", "append_system_prompt": "b"}, "instructions.system", "a"),
        ({"system_prompt": "a", "append_system_prompt": "b"}, "instructions.append", "b"),
    ],
)
def test_each_option_changes_what_it_is_for(options: dict[str, Any], place: str, value: object) -> None:
    found: Any = spec(**options)
    for name in place.split("."):
        found = getattr(found, name)
    assert found == value


def test_settings_in_the_form_of_claude_code_count_where_nothing_was_typed(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    theirs = json.dumps(
        {
            "model": "m",
            "permissions": {
                **{"allow": ["Read"], "ask": ["Bash"], "deny": ["Write"], "defaultMode": "plan"},
                "additionalDirectories": [str(tmp_path / "theirs")],
            },
            "env": {"A": "1"},
            "outputStyle": "terse",
            "language": "Latin",
        }
    )
    found = spec(claude_settings=theirs, allowed_tools=("Edit",), denied_tools=("Glob",), add_dir=(str(tmp_path),))
    assert (found.model, found.mode, found.env) == ("m", "plan", {"A": "1"})
    assert (found.rules.allow, found.rules.ask, found.rules.deny) == (("Edit", "Read"), ("Bash",), ("Glob", "Write"))
    assert found.add_dirs == (str(tmp_path), str(tmp_path / "theirs"))
    assert (found.extra["output_style"], found.extra["language"]) == ("terse", "Latin") and len(found.extra) == 2
    typed = spec(claude_settings=theirs, model="mine", permission_mode="suggest")
    assert (typed.model, typed.mode) == ("mine", "suggest")


def test_files_and_json_become_prompts_subagents_and_plugins(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("from a file")
    found = spec(
        system_prompt_file=str(tmp_path / "p"),
        append_system_prompt_file=str(tmp_path / "p"),
        agents='{"t": {"description": "d", "prompt": "p"}}',
        plugin_dir=(str(tmp_path / "x" / ".."),),
    )
    assert found.instructions.system == found.instructions.append == "from a file"
    assert [each.name for each in found.subagents] == ["t"] and found.instructions.plugins == (str(tmp_path),)
    options = RunOptions(agent="native", as_agent="heron").spec(answers=False, default_mode="plan")
    assert options.extra["as_agent"] == "heron" and options.mode == "plan"
    assert options.extra["agent_hints"][0].startswith("programs are native, ")


@pytest.mark.parametrize(
    ("options", "environment", "agent", "as_agent"),
    [
        ({}, {}, "chosen", ""),
        ({"agent": "claude"}, {}, "claude", ""),
        ({"agent": "acp:cat"}, {}, "acp:cat", ""),
        ({"agent": "heron"}, {}, "native", "heron"),
        ({}, {"TREADLE_AGENT": " codex "}, "codex", ""),
        ({"model": "x"}, {"TREADLE_AGENT": "codex"}, "codex", ""),
        ({}, {"TREADLE_AGENT": "codex", "TREADLE_MODEL": "openai:x"}, "codex", ""),
        ({"model": "anthropic:x"}, {}, "native", ""),
        ({"model": "ollama"}, {"TREADLE_AGENT": "codex"}, "native", ""),
        ({}, {"TREADLE_MODEL": "openai:x"}, "native", ""),
        ({"agent": "claude", "model": "anthropic:x"}, {}, "claude", ""),
    ],
)
def test_who_runs_it_is_named_or_set_or_our_own(
    options: dict[str, str], environment: dict[str, str], agent: str, as_agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings('agent = "chosen"\n[agents.chosen]\nspeaks = "acp"\ncommand = "cat"\n')
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = RunOptions(**options).settled()  # type: ignore[arg-type]
    assert (found.agent, found.as_agent) == (agent, as_agent)


def test_our_own_agent_is_chosen_once_anything_says_what_it_works_with() -> None:
    plain = RunOptions(agent="native")
    assert not plain.chosen()
    chosen: list[dict[str, Any]] = [{"model": "m"}, {"as_agent": "a"}, {"continue_last": True}, {"resume": ""}]
    for options in (*chosen, {"agent": "codex"}, {"claude_settings": '{"model": "m"}'}):
        assert replace(plain, **options).chosen()
    settings('model = "m"\n')
    assert plain.chosen()


TAKEN: list[RunOptions] = []


@click.command()
@run_options
def run(**values: Any) -> None:
    TAKEN.append(take(values))
    assert values == {}, "nothing else is left"


def typed(*words: str) -> RunOptions:
    done = CliRunner().invoke(run, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return TAKEN.pop()


def test_a_served_agent_is_the_one_of_the_environment_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    @serving_options
    def serve(**values: Any) -> None:
        click.echo(json.dumps(values))

    def served(*words: str) -> Any:
        return json.loads(CliRunner().invoke(serve, words).output)

    assert served() == {"agent": "native", "sandbox": None, "network": None}
    assert served("--no-sandbox", "--network", "off") == {"agent": "native", "sandbox": False, "network": "off"}
    monkeypatch.setenv("TREADLE_AGENT", "codex")
    assert served("--sandbox")["agent"] == "codex" and served("--agent", "claude")["agent"] == "claude"
    assert CliRunner().invoke(serve, ["--version"], prog_name="x").output == f"x {__version__}\n"


def test_servers_of_several_files_are_put_together_and_the_last_counts(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"mcpServers": {"one": {"command": "x"}, "two": {"command": "y"}}}')
    assert servers((str(tmp_path / "a.json"), '{"mcpServers": {"two": {"url": "z"}}}')) == {
        "one": {"command": "x"},
        "two": {"url": "z"},
    }
    for wrong in ('{"mcpServers": []}', '{"one": {"command": "x"}}'):
        with pytest.raises(ConfigError, match="no table of servers"):
            servers((wrong,))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sandbox": {"x": 1}}, "--settings has a sandbox"),
        ({"hooks": {"Newer": []}}, "'Newer' may forbid something"),
        ({"hooks": []}, None),
        ({"hooks": [1]}, "must be an object"),
        ({"hooks": {"Stop": {}}}, "must be a list"),
        ({"hooks": {"Stop": [{"hooks": [{"type": "agent", "prompt": "x"}]}]}}, "of the type"),
        ({"hooks": {"Newer": []}, "disableAllHooks": True}, None),
    ],
)
def test_what_could_forbid_something_and_cannot_be_kept_is_refused(settings: object, said: str | None) -> None:
    if said is None:
        assert claude_settings(json.dumps(settings)).hooks == ()
        return
    with pytest.raises(ConfigError, match=said):
        claude_settings(json.dumps(settings))


def test_a_file_that_holds_something_else_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="both a system prompt and a system prompt file were given"):
        spec(system_prompt="", system_prompt_file=str(tmp_path / "p"))
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"--settings .*list\.json is not a JSON object"):
        claude_settings(str(tmp_path / "list.json"))
