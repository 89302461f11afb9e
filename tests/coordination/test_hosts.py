"""`treadle coord setup` for every program it knows."""

import json
import subprocess
import tomllib
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
        assert str(BIN) not in text and str(project) not in text and "heimdall" in text or "coord" in text
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
    ((key, state),) = told["hooks"]["state"].items()
    assert key == f"{project}/.codex/hooks.json:pre_tool_use:0:0" and state["trusted_hash"].startswith("sha256:")
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
