"""`treadle doctor`."""

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from treadle.agent.providers.script import parse
from treadle.cli.doctor import Finding, _configuration, _next, doctor
from treadle.io.paths import config_file
from treadle.testing.server import ModelServer


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """Settings are read once in a process, and each test has its own."""
    _configuration.cache_clear()
    yield
    _configuration.cache_clear()


def told(*options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    _configuration.cache_clear()
    result = CliRunner().invoke(doctor, ["--json", *options])
    return int(result.exit_code), {f"{check['area']} {check['name']}": check for check in json.loads(result.stdout)}


def test_it_says_what_works_and_never_shows_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    result = CliRunner().invoke(doctor, ["--offline"])
    assert result.exit_code == 0 and "OPENAI_API_KEY set" in result.output and "very-secret" not in result.output
    assert "https://api.openai.com/v1" in result.output and "not contacted" in result.output


def test_a_state_directory_that_cannot_be_used_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "file" / "x"))
    code, found = told("--offline")
    assert code == 1 and not found["state directory"]["ok"] and "TREADLE_HOME" in found["state directory"]["fix"]


def test_settings_that_every_run_refuses_are_not_ok() -> None:
    file = Path(config_file())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('permission_mode = "recklessly"\n')
    code, found = told("--offline")
    assert code == 1 and not found["settings here"]["ok"] and "recklessly" in found["settings here"]["says"]
    file.write_text('[models]\nidle_timeout = "long"\n')
    assert told("--offline")[0] == 1


def test_a_model_that_cannot_be_used_is_a_failure_and_none_at_all_is_only_said(monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = told("--offline")
    assert code == 0 and not found["models chosen"]["ok"] and "TREADLE_MODEL" in found["models chosen"]["fix"]
    monkeypatch.setenv("TREADLE_MODEL", "anthropic:x")
    code, found = told("--offline")
    assert code == 1 and "ANTHROPIC_API_KEY" in found["models chosen"]["fix"]


def test_a_service_is_contacted_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "x" * 20)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    _, found = told()
    assert not found["models openai"]["ok"] and "http://127.0.0.1:9/v1" in found["models openai"]["says"]
    assert "treadle models openai" in found["models openai"]["fix"]


async def test_a_service_that_answers_is_told_with_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer(parse('[[reply]]\ntext = "hi"\n')) as server:
        monkeypatch.setenv("TREADLE_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("TREADLE_MODEL", "chat:any")
        code, found = await asyncio.to_thread(told)
    assert code == 0 and found["models chosen"]["ok"]
    assert found["models chat"]["ok"] and f"{server.url}/v1: " in found["models chat"]["says"]


def test_an_agent_that_does_not_speak_as_it_should_cannot_be_driven(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "codex"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo codex-cli 0.166.0 && exit 0\necho no such thing >&2; exit 3\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _, found = told("--offline")
    assert found["agents codex"]["ok"] and "0.166.0" in found["agents codex"]["says"]
    _, found = told()
    assert not found["agents codex"]["ok"] and "cannot be driven" in found["agents codex"]["says"]
    assert found["agents codex"]["fix"].startswith("treadle agents codex")


def test_the_last_lines_say_what_to_do_next() -> None:
    shown = CliRunner().invoke(doctor, ["--offline"]).output
    assert "\nNext:\n" in shown and "TREADLE_MODEL" in shown.partition("\nNext:\n")[2]


def test_in_a_pipe_it_says_what_may_take_long_before_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = CliRunner().invoke(doctor, [])
    said = result.stderr.splitlines()
    assert [line.partition(":")[0] for line in said] == ["trying models", "trying agents"]
    assert CliRunner().invoke(doctor, ["--offline"]).stderr == ""


def finding(name: str, **fields: Any) -> Finding:
    return Finding(**{"area": "a", "name": name, "ok": False, "says": "s", **fields})


def test_what_is_needed_comes_first_and_what_is_well_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    later, first = finding("later", fix="later"), finding("first", fix="first\x1b", needed=True)
    _next([later, finding("fine", ok=True, fix="never"), finding("none"), first])
    assert capsys.readouterr().out == "\nNext:\n  first\ufffd\n  later\n"
    _next([finding("fine", ok=True, fix="never"), finding("none")])
    assert capsys.readouterr().out == (
        "\nNothing to do. `treadle` opens a chat, `treadle -p PROMPT` runs one prompt.\n"
    )


def test_each_line_says_whether_it_is_well_needed_or_only_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def area(offline: bool) -> Iterator[Finding]:
        assert offline
        yield from (finding("well", ok=True), finding("missing"), finding("broken", needed=True))

    monkeypatch.setattr("treadle.cli.doctor.AREAS", {"it": area})
    done = CliRunner().invoke(doctor, ["--offline"])
    assert done.exit_code == 1 and [line.split() for line in done.stdout.splitlines()[:3]] == [
        ["ok", "a", "well", "s"],
        ["-", "a", "missing", "s"],
        ["NO", "a", "broken", "s"],
    ]
    assert len(json.loads(CliRunner().invoke(doctor, ["--offline", "--json"]).stdout)) == 3
