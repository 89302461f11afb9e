"""Settings files of Claude Code: what they say holds here, as far as the project is trusted."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.wire.test_translations import hold
from treadle.errors import ConfigError
from treadle.io.paths import config_file
from treadle.settings import claude, config, trust
from treadle.settings.config import LoadedSettings


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    monkeypatch.setattr(claude, "MANAGED", str(tmp_path / "managed.json"))
    return tmp_path / "repo"


def says(path: Path, **settings: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))


def load(cwd: Path, **more: Any) -> LoadedSettings:
    return config.load(str(cwd), {"CLAUDE_CONFIG_DIR": str(cwd.parent / "user")}, **more)


HOOK = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "judge"}]}]}


def test_a_deny_rule_of_an_untrusted_project_holds_and_what_widens_is_named(repo: Path) -> None:
    rules = {"deny": ["Bash(touch:*)"], "ask": ["Write"], "allow": ["Bash"], "defaultMode": "bypassPermissions"}
    says(repo / ".claude" / "settings.json", permissions=rules, env={"A": "1"}, hooks=HOOK, model="opus")
    loaded = load(repo)
    assert loaded.settings.permissions == config.Rules(deny=("Bash(touch:*)",), ask=("Write",))
    assert (loaded.settings.variables, loaded.settings.hooks, loaded.settings.model) == (
        {},
        config.HookSettings(),
        None,
    )
    named = {line.rpartition(": ")[2] for line in loaded.ignored}
    assert named == {"permissions.allow", "permission_mode", "variables", "hooks", "model"}


def test_all_of_it_holds_once_the_project_is_trusted_and_not_when_it_changes(repo: Path) -> None:
    file = repo / ".claude" / "settings.json"
    says(file, permissions={"allow": ["Bash"]}, env={"A": "1"}, hooks=HOOK)
    trust.trust(str(repo))
    settings = load(repo).settings
    assert (settings.permissions.allow, settings.variables) == (("Bash",), {"A": "1"})
    [hook] = settings.hooks.events
    assert (hook.event, hook.matcher, hook.command) == ("PreToolUse", "Bash", "judge")
    says(file, permissions={"allow": ["Bash", "Write"]})
    assert load(repo).settings.permissions.allow == ()


def test_a_broken_file_stops_a_person_only_if_it_is_their_own(repo: Path) -> None:
    (repo / ".claude").mkdir()
    (repo / ".claude" / "settings.json").write_text("{")
    assert "not valid JSON" in load(repo).ignored[0]
    says(repo / ".claude" / "settings.json", permissions={"deny": ["(("]})
    assert "not a permission rule" in load(repo).ignored[0]
    with pytest.raises(ConfigError, match="not a permission rule"):
        load(repo, trusted=True)
    says(repo.parent / "user" / "settings.json", permissions={"deny": ["(("]})
    with pytest.raises(ConfigError, match="not a permission rule"):
        load(repo)


OTHER = [{"hooks": [{"type": "agent", "prompt": "look"}]}]

WRONG = [{"hooks": [{"type": ["command"], "command": "true"}]}]


def test_a_hook_that_cannot_be_run_is_told_and_one_that_might_forbid_is_kept_apart(repo: Path) -> None:
    hooks = {
        "Stop": OTHER,
        "PreToolUse": OTHER,
        "NewerEvent": OTHER,
        "SessionEnd": WRONG,
        "UserPromptSubmit": HOOK["PreToolUse"],
    }
    says(repo.parent / "user" / "settings.json", hooks=hooks)
    loaded = load(repo)
    warned = "\n".join(loaded.warnings)
    assert all(each in warned for each in ("Stop of the type", "SessionEnd of the type", "'NewerEvent'"))
    [missed] = loaded.forbids
    assert "PreToolUse of the type" in missed and str(repo.parent / "user") in missed
    assert [hook.event for hook in loaded.settings.hooks.events] == ["UserPromptSubmit"]
    assert load(repo, sources=("project",)).forbids == ()
    says(repo.parent / "user" / "settings.json", hooks=hooks, disableAllHooks=True)
    assert load(repo).forbids == () and load(repo).warnings == ()


def test_a_hook_of_an_untrusted_project_that_cannot_be_run_does_not_take_its_rules_away(repo: Path) -> None:
    says(repo / ".claude" / "settings.json", permissions={"deny": ["Bash(a)"]}, hooks={"PreToolUse": OTHER})
    assert load(repo).settings.permissions.deny == ("Bash(a)",) and not load(repo).forbids
    assert load(repo, trusted=True).forbids


@pytest.mark.parametrize("model", ["opusplan", "default", "us.anthropic.claude-opus-4-v1:0", "claude-opus-4@20250514"])
def test_a_model_that_only_claude_code_can_use_is_passed_over_and_told(repo: Path, model: str) -> None:
    file = repo.parent / "user" / "settings.json"
    env = {"CLAUDE_CONFIG_DIR": str(file.parent), "ANTHROPIC_API_KEY": "k"}
    says(file, model=model)
    loaded = config.load(str(repo), env)
    assert loaded.settings.model is None
    assert loaded.unreachable == (f"{file}: the model {model!r} of Claude Code cannot be used here",)
    loaded = config.load(str(repo), {**env, "TREADLE_MODEL": "local"})
    assert (loaded.settings.model, loaded.unreachable, loaded.origins["model"]) == ("local", (), "TREADLE_MODEL")


def test_a_model_of_theirs_is_used_where_its_service_is_reached(repo: Path) -> None:
    file = repo.parent / "user" / "settings.json"
    env = {"CLAUDE_CONFIG_DIR": str(file.parent)}
    says(file, model="opus")
    key = {"ANTHROPIC_API_KEY": "k"}
    assert config.load(str(repo), env).settings.model is None
    assert config.load(str(repo), {**env, **key, "TREADLE_BASE_URL": "http://x/v1"}).settings.model is None
    loaded = config.load(str(repo), {**env, **key})
    assert loaded.settings.model == "opus" and loaded.origins["model"] == str(file)
    assert config.load(str(repo), {**env, "ANTHROPIC_BASE_URL": "http://x"}).settings.model == "opus"
    says(file, model="opus", env={"ANTHROPIC_MODEL": "haiku"})
    assert config.load(str(repo), {**env, **key}).settings.model == "haiku"
    assert config.load(str(repo), {**env, **key}, sources=("project",)).settings.model is None
    ours = Path(config_file())
    ours.parent.mkdir(parents=True, exist_ok=True)
    ours.write_text('[models]\nbase_url = "http://x/v1"\n')
    assert config.load(str(repo), {**env, **key}).settings.model is None


def test_what_may_not_be_read_may_not_be_written_and_only_edit_allows_paths() -> None:
    read = claude.parse(
        {"permissions": {"deny": ["Read(a)", "Read"], "allow": ["Write(b)", "Write", "Edit(c)", "bash(ls)"]}}, "x", "/"
    )
    assert read.rules.deny == ("Read(a)", "Read", "Edit(a)")
    assert (
        read.rules.allow == ("Write", "Edit(c)")
        and "Write(b)" in read.reading.notice
        and "bash(ls)" in read.reading.notice
    )


def test_files_are_found_from_the_top_of_the_project_down_and_in_the_users_directory(repo: Path) -> None:
    (repo / "deep").mkdir()
    for place in (repo / "deep", repo):
        says(place / ".claude" / "settings.json", model="opus")
        (place / ".claude" / "settings.local.json").write_text(" \n")
    broken: list[str] = []

    def found(sources: tuple[str, ...] | None) -> list[str]:
        files = claude.project_files(str(repo / "deep"), sources, broken)
        assert all(file.project and file.path.startswith(f"{file.project}/.claude/") for file in files)
        return [file.path.removeprefix(f"{repo}/") for file in files]

    shared, local = ".claude/settings.json", ".claude/settings.local.json"
    assert found(None) == [shared, local, f"deep/{shared}", f"deep/{local}"] and broken == []
    assert (found(("project",)), found(("local", "x"))) == ([shared, f"deep/{shared}"], [local, f"deep/{local}"])
    (repo / ".claude" / "settings.json").write_text("{")
    assert found(("project",)) == [f"deep/{shared}"]
    assert (
        len(broken) == 1 and f"{repo}/{shared} is not valid JSON" in broken[0] and "--setting-sources" not in broken[0]
    )
    assert (
        claude.user_directory({}) == str(Path.home() / ".claude")
        and claude.user_directory({"CLAUDE_CONFIG_DIR": "/x"}) == "/x"
    )
    user = {"CLAUDE_CONFIG_DIR": str(repo / "deep" / ".claude")}
    mine = claude.own_file(user)
    assert mine is not None and mine.project is None and mine.settings.model == "opus"
    assert claude.own_file({"CLAUDE_CONFIG_DIR": "/none"}) is None is claude.managed_file()
    (repo / "deep" / ".claude" / "settings.json").write_text("{")
    with pytest.raises(ConfigError, match="--setting-sources project,local"):
        claude.own_file(user)


@pytest.mark.parametrize(
    ("model", "good"), [("opus", 1), ("sonnet[1m]", 1), ("claude-x-4.5", 1), ("opusplan", 0), ("x/opus", 0)]
)
def test_models_that_anthropics_service_has_by_this_name(model: str, good: int) -> None:
    assert claude.reachable(model) is bool(good)


def test_each_form_of_a_setting_is_taken_or_refused_as_it_was() -> None:
    hold("settings", {"settings claude": (claude, "")})
