"""`treadle exec` in place of `codex exec`."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.installed import treadle
from treadle.cli.oneshot import exec_, oneshot_arguments


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        ("", "suggest"),
        ("--json -", "suggest --output-format codex-json"),
        ("--experimental-json -", "suggest --output-format codex-json"),
        ("--sandbox workspace-write -- --x", "full-auto -- --x"),
        ("--full-auto", "full-auto"),
        ("--yolo -s read-only", "yolo"),
        ("--dangerously-bypass-approvals-and-sandbox", "yolo"),
        ("-s danger-full-access --skip-git-repo-check --thread-source x", "yolo"),
        ("--full-auto -s read-only", "suggest"),
        ("resume abc", "suggest --resume abc"),
        ("resume abc go", "suggest --resume abc -- go"),
        ("--last resume go", "suggest --continue -- go"),
        ("--last resume", "suggest --continue"),
        ("--last resume -", "suggest --continue"),
        ("--last go", "suggest -- go"),
        ("-m m --agent a --output-schema s -o l --ephemeral go",)
        + ("suggest --no-session-persistence --model m --agent a --json-schema s --last-message l -- go",),
        ('-c model_reasoning_effort="high" --add-dir /a', "suggest --add-dir /a --effort high"),
        ("--add-dir /a --add-dir /b -c model_reasoning_effort=low -c web_search=x --config approval_policy=never",)
        + ("suggest --add-dir /a --add-dir /b --effort low",),
    ],
)
def test_what_codex_is_given_becomes_a_run(typed: str, arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = exec_.make_context("x", ["--cd", "d", *typed.split()]).params
    assert found.pop("directory") == "d"
    assert oneshot_arguments(found.pop("words"), **found) == ["-p", "--permission-mode", *arguments.split()]
    assert capsys.readouterr().err == ""


def test_a_setting_of_codex_that_is_not_used_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    oneshot_arguments((), config=("mcp_servers.x.command=y",))
    assert "mcp_servers.x.command is not used" in capsys.readouterr().err


def test_a_thread_is_begun_and_resumed_with_the_installed_command(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "s.toml").write_text("reply=[{text='Seen.', times='always'}]")
    options = ("--experimental-json", "--model", "scripted:s.toml", "--cd", str(tmp_path))
    first = [json.loads(line) for line in treadle("exec", *options, input="look").stdout.splitlines()]
    assert [line["type"] for line in first] == ["thread.started", "turn.started", "item.completed", "turn.completed"]
    again = treadle("exec", *options, "resume", first[0]["thread_id"], input="and again").stdout.splitlines()
    assert json.loads(again[0]) == first[0] and json.loads(again[2])["item"]["text"] == "Seen."
    failed = treadle("exec", "--json", "--model", "scripted:none", "--cd", str(tmp_path), "x")
    assert failed.returncode == 1 and json.loads(failed.stdout)["type"] == "error"
    assert treadle("exec", "--cd", "/no/such", "x").returncode == 1
