import json
from pathlib import Path

from click.testing import CliRunner

from treadle.cli.root import treadle
from treadle.errors import ConfigError


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


def test_a_missing_directory_is_said_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(treadle, ["trust", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, ConfigError) and "is not a directory" in str(result.exception)
