"""`treadle coord setup` for every program it knows."""

import json
import subprocess
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest

from tests.coordination.conftest import BIN, git, here
from treadle.coordination import hosts
from treadle.errors import ConfigError


def setup(project: Path, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return here("setup", *words, cwd=project, PATH=f"{BIN}:/usr/bin:/bin", **env)


WHERE = {
    "claude": (".mcp.json", ".claude/settings.json", "AGENTS.md"),
    "codex": (".codex/config.toml", ".codex/hooks.json", "AGENTS.md"),
    "gemini": (".gemini/settings.json", "GEMINI.md"),
    "qwen": (".qwen/settings.json", "AGENTS.md"),
    "copilot": (".mcp.json", ".github/hooks/treadle.json", "AGENTS.md"),
    "opencode": ("opencode.json", ".opencode/plugin/treadle.js", "AGENTS.md"),
    "cursor": (".cursor/mcp.json", ".cursor/hooks.json", "AGENTS.md"),
}


@pytest.mark.parametrize("name", hosts.NAMES)
def test_what_is_written_has_no_path_of_this_machine_and_goes_away_again(project: Path, name: str) -> None:
    shown = setup(project, name, "--dry-run").stdout
    assert git(project, "status", "--porcelain") == ""
    assert "guard install" in setup(project, name, "--no-guard").stderr
    assert setup(project, name, "--remove").returncode == 0
    done = setup(project, name)
    assert done.returncode == 0 and f"installed {project / '.git/hooks/pre-commit'} (block)" in done.stdout
    for file in WHERE[name]:
        assert f"+++ {project / file}" in shown and str(project / file) in done.stdout
        text = (project / file).read_text()
        assert str(BIN) not in text and str(project) not in text
        assert "heimdall" in text or "coord" in text
    assert setup(project, name).stdout.count("unchanged") == len(WHERE[name])
    assert setup(project, name, "--remove").returncode == 0
    assert git(project, "status", "--porcelain") == ""
    assert "was not set up" in setup(project, name, "--remove").stdout


def test_claude_reads_claude_md_where_there_is_one(project: Path) -> None:
    (project / "CLAUDE.md").write_text("Be kind.\n")
    setup(project, "claude")
    assert (project / "CLAUDE.md").read_text().startswith("Be kind.\n\n<!-- treadle coord: begin -->\n")
    assert not (project / "AGENTS.md").exists()
    entry = json.loads((project / ".claude/settings.json").read_text())["hooks"]["PreToolUse"][0]["hooks"][0]
    assert entry["timeout"] == hosts.HOOK_SECONDS
    gone = subprocess.run(["sh", "-c", entry["command"]], env={"PATH": "/usr/bin:/bin"}, capture_output=True)
    assert (gone.returncode, gone.stdout, gone.stderr) == (0, b"", b"")  # on a machine without Treadle


def test_codex_finds_its_hook_in_the_main_worktree_and_trusts_it_when_told_so(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    home = tmp_path / "codex"
    home.mkdir()
    (home / "config.toml").write_text('model = "x"\n')
    setup(tmp_path / "other", "codex", "--trust", CODEX_HOME=str(home))
    assert (project / ".codex" / "hooks.json").exists() and (tmp_path / "other/.codex/config.toml").exists()
    told = tomllib.loads((home / "config.toml").read_text())
    hooks = f"{project}/.codex/hooks.json"
    assert list(told["hooks"]["state"]) == [f"{hooks}:pre_tool_use:0:0", f"{hooks}:post_tool_use:0:0"]
    setup(tmp_path / "other", "codex", "--remove", CODEX_HOME=str(home))
    assert (home / "config.toml").read_text() == 'model = "x"\n'
    assert git(project, "status", "--porcelain") == ""


def test_cursor_is_answered_also_on_a_machine_without_treadle(project: Path) -> None:
    setup(project, "cursor")
    (entry,) = json.loads((project / ".cursor/hooks.json").read_text())["hooks"]["preToolUse"]
    gone = subprocess.run(["sh", "-c", entry["command"]], env={"PATH": "/usr/bin:/bin"}, capture_output=True)
    assert (gone.returncode, gone.stdout) == (0, b"{}\n")


def test_an_unknown_program_is_refused_with_those_there_are(project: Path) -> None:
    done = setup(project, "nonsense")
    assert done.returncode == 2 and "claude, codex, gemini, qwen, copilot, opencode, cursor" in done.stderr
    with pytest.raises(ConfigError):
        hosts.host("nonsense", str(project), str(project))


def test_codex_has_its_text_in_the_override_where_there_is_one_and_trusts_the_place_that_the_hook_gets(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    asks = hosts.host("codex", str(project), str(project))
    assert {edit.path for edit in asks.edits} == {str(project / file) for file in WHERE["codex"]}
    assert len(asks.notes) == 2 and "or --trust here" in asks.notes[1]
    (project / "AGENTS.override.md").touch()
    (project / ".codex").mkdir()
    (project / ".codex/hooks.json").write_text('{"hooks": {"PreToolUse": [{"hooks": []}]}}')
    trusts = hosts.host("codex", str(project), str(project), trust=True)
    _, hook, _, text, settings = trusts.edits
    assert text.path == str(project / "AGENTS.override.md") and "as --trust says" in trusts.notes[1]
    assert settings.path == str(tmp_path / ".codex/config.toml")
    key, state = next(iter(tomllib.loads(settings.put(None))["hooks"]["state"].items()))
    assert key == f"{project}/.codex/hooks.json:pre_tool_use:1:0"
    (ran,) = json.loads(hook.put(None))["hooks"]["PreToolUse"][0]["hooks"]
    seen = {"event_name": "pre_tool_use", "hooks": [{**ran, "async": False}]}
    written = json.dumps(seen, sort_keys=True, separators=(",", ":"))
    assert state["trusted_hash"] == f"sha256:{sha256(written.encode()).hexdigest()}"


def test_each_program_gets_the_server_and_the_hook_in_its_own_form(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(BIN))
    monkeypatch.setenv("TREADLE_HOME", "/state")
    for name in ("claude", "codex", "opencode"):  # which Codex, for one, does not pass on
        assert any("/state" in edit.put(None) for edit in hosts.host(name, "/w", "/w").edits)
    monkeypatch.delenv("TREADLE_HOME")
    server = {"command": "heimdall-ledger-mcp", "args": []}
    said = {name: [edit.put(None) for edit in hosts.host(name, "/t", "/m").edits] for name in hosts.NAMES}
    for name in ("claude", "gemini", "qwen", "copilot", "cursor"):
        more = {"alwaysLoad": True} if name == "claude" else {}
        assert json.loads(said[name][0]) == {"mcpServers": {"heimdall": {**server, **more}}}
    opened = {"type": "local", "command": ["heimdall-ledger-mcp"], "enabled": True}
    assert json.loads(said["opencode"][0]) == {"mcp": {"heimdall": opened}}
    assert tomllib.loads(said["codex"][0]) == {"mcp_servers": {"heimdall": {"command": "heimdall-ledger-mcp"}}}
    assert 'const TREADLE = "treadle";' in said["opencode"][1]
    for name, event in (
        ("claude", "PreToolUse"),
        ("codex", "PreToolUse"),
        ("gemini", "BeforeTool"),
        ("qwen", "PreToolUse"),
    ):
        (entry,) = json.loads(said[name][1])["hooks"][event]
        (hook,) = entry["hooks"]
        assert hook["command"] == f"sh -c 'command -v treadle >/dev/null || exit 0; exec treadle coord hook {name}'"
        assert hook["timeout"] == (10_000 if name == "gemini" else 10)
    assert json.loads(said["copilot"][1])["hooks"]["PreToolUse"][0]["timeout"] == 10
    assert json.loads(said["cursor"][1]) == {"version": 1}
    monkeypatch.setenv("PATH", "/nowhere")
    assert hosts.program("treadle") == str(BIN / "treadle"), "where PATH has none"
