"""`treadle exec` in place of `codex exec`."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.installed import treadle
from treadle.cli.oneshot import exec_, oneshot_arguments


@pytest.mark.parametrize(
    ("words", "given", "arguments"),
    [
        ((), {}, ["-p", "--permission-mode", "suggest"]),
        (("-",), {"as_json": True}, ["-p", "--permission-mode", "suggest", "--output-format", "codex-json"]),
        (("--x",), {"sandbox": "workspace-write"}, ["-p", "--permission-mode", "full-auto", "--", "--x"]),
        ((), {"full_auto": True}, ["-p", "--permission-mode", "full-auto"]),
        ((), {"bypass": True, "sandbox": "read-only"}, ["-p", "--permission-mode", "yolo"]),
        (("resume", "abc"), {}, ["-p", "--permission-mode", "suggest", "--resume", "abc"]),
        (("resume", "go"), {"last": True}, ["-p", "--permission-mode", "suggest", "--continue", "--", "go"]),
        (
            (),
            {"config": ('model_reasoning_effort="high"', "approval_policy=never"), "add_dir": ("/a",)},
            ["-p", "--permission-mode", "suggest", "--add-dir", "/a", "--effort", "high"],
        ),
        ((), {"sandbox": "danger-full-access"}, ["-p", "--permission-mode", "yolo"]),
        ((), {"full_auto": True, "sandbox": "read-only"}, ["-p", "--permission-mode", "suggest"]),
        (("resume", "abc", "go"), {}, ["-p", "--permission-mode", "suggest", "--resume", "abc", "--", "go"]),
        (("resume",), {"last": True}, ["-p", "--permission-mode", "suggest", "--continue"]),
        (("resume", "-"), {"last": True}, ["-p", "--permission-mode", "suggest", "--continue"]),
        (("go",), {"last": True}, ["-p", "--permission-mode", "suggest", "--", "go"]),
        (
            ("go",),
            {"model": "m", "agent": "a", "output_schema": "s", "output_last_message": "l", "ephemeral": True},
            [
                *("-p", "--permission-mode", "suggest", "--no-session-persistence", "--model", "m", "--agent", "a"),
                *("--json-schema", "s", "--last-message", "l", "--", "go"),
            ],
        ),
        (
            (),
            {"config": (" model_reasoning_effort = low", "web_search=x"), "add_dir": ("/a", "/b")},
            ["-p", "--permission-mode", "suggest", "--add-dir", "/a", "--add-dir", "/b", "--effort", " low"],
        ),
    ],
)
def test_what_codex_is_given_becomes_a_run(
    words: tuple[str, ...], given: dict[str, object], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert oneshot_arguments(words, **given) == arguments  # type: ignore[arg-type]
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


def test_the_options_of_codex_are_taken_in_all_their_spellings() -> None:
    plain = exec_.make_context("x", ["go"]).params
    flags = ("as_json", "full_auto", "bypass", "ephemeral", "skip_git_repo_check", "last")
    assert plain["words"] == ("go",) and not any(plain[name] for name in flags)
    words = "--experimental-json --full-auto --yolo --ephemeral --skip-git-repo-check --last -m x -s read-only -C d"
    found = exec_.make_context(
        "x", [*words.split(), "--add-dir", "a", "--add-dir", "b", "-c", "k=v", "-c", "l=w"]
    ).params
    assert all(found[name] is True for name in flags) and found["directory"] == "d" and found["model"] == "x"
    assert (found["add_dir"], found["config"], found["sandbox"]) == (("a", "b"), ("k=v", "l=w"), "read-only")
    long = exec_.make_context("x", ["--dangerously-bypass-approvals-and-sandbox", "--json", "-o", "f"]).params
    assert long["bypass"] and long["as_json"] and long["output_last_message"] == "f"
