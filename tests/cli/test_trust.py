"""`treadle trust`, and what a project does not get without it."""

import json
from pathlib import Path

from click.testing import CliRunner

from tests.installed import treadle as installed
from treadle.cli.root import treadle


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(treadle, ["trust", *arguments])
    return result.exit_code, result.output


def test_a_person_trusts_lists_and_takes_back(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("{}")
    here = str(tmp_path)
    assert run("--list") == (0, "nothing is trusted yet\n")
    assert run(here) == (0, f"trusted {here}\n  .mcp.json\n")
    assert here in run("--list")[1]
    (tmp_path / ".mcp.json").write_text("{ }")
    assert "changed since: not trusted" in run("--list")[1]
    assert json.loads(run("--list", "--json")[1])[0]["changed"] is True
    assert run(here, "--remove") == (0, f"{here} is not trusted any more\n")
    assert json.loads(run("--list", "--json")[1]) == []


def test_a_person_is_told_what_an_untrusted_project_did_not_get(tmp_path: Path) -> None:
    (tmp_path / ".treadle").mkdir()
    (tmp_path / ".treadle" / "config.toml").write_text('nonsense = 1\n[[hooks.pre_tool]]\ncommand = "exit 2"\n')
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"evil": {"command": "evil"}}}')
    (tmp_path / "script.toml").write_text('[[reply]]\ntext = "hello"\n')
    done = installed("-p", "hi", "--model", "scripted:script.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    said = done.stderr.splitlines()
    assert any("there is no setting nonsense" in line for line in said)
    assert any("not trusted" in line and line.endswith("config.toml: hooks") for line in said)
    assert any("not trusted" in line and line.endswith(".mcp.json: mcpServers.evil") for line in said)
