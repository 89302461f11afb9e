"""`treadle doctor`, and what each of its areas finds where something is missing."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.agent.checkouts import Working, checkout
from tests.agent.test_leftovers import MERGING
from treadle.cli import doctor as areas
from treadle.cli.doctor import _configuration, doctor
from treadle.io.paths import config_file
from treadle.io.sandbox import methods


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


def found(area: str) -> dict[str, areas.Finding]:
    return {each.name: each for each in areas.AREAS[area](True)}


def test_a_part_that_is_not_installed_is_told_from_one_that_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_part.py").write_text("raise ValueError('wrong wheel')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(areas, "PROVIDES", {"fleet": "absent_part", "local": "broken_part", "schema": "json"})
    parts = found("optional parts")
    assert parts["schema"].ok and parts["schema"].says == "installed, and can be loaded"
    assert not parts["fleet"].ok and not parts["local"].ok and parts["ripgrep"].ok
    assert parts["fleet"].says.startswith("not installed: ") and "fleet" in parts["fleet"].says
    assert parts["local"].says == "installed, but cannot be loaded: wrong wheel" and parts["local"].fix.endswith(
        "again"
    )


@pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
def test_what_a_session_left_is_named_with_what_takes_it_over(tmp_path: Path) -> None:
    top = checkout(tmp_path / "w")

    async def leave() -> None:
        agent = Working(top)
        await agent.run(MERGING)
        agent.confining.close()

    asyncio.run(leave())
    left = found("the state directory")["kept repository"]
    assert not left.ok and not left.needed and f"work in {top} was taken over" in left.says
    assert "(unfinished: MERGE_HEAD)" in left.says and left.fix.startswith("treadle git adopt s1 (or treadle gc git:s1")


@pytest.mark.parametrize(
    ("method", "problems", "ok", "git", "says"),
    [
        ("bubblewrap", (), True, True, "bubblewrap, tried"),
        ("landlock", ("no bwrap",), True, False, "landlock, tried; no bwrap"),
        (None, ("no bwrap",), False, False, "nothing to confine commands with; no bwrap"),
    ],
)
def test_the_sandbox_is_said_with_what_runs_then_write_to(
    method: Any, problems: tuple[str, ...], ok: bool, git: bool, says: str
) -> None:
    tried = methods.Availability(method=method, problems=problems)
    sandbox = {each.name: each for each in areas.sandboxing(tried, (), None)}
    assert (sandbox["--sandbox"].ok, sandbox["--sandbox"].says) == (ok, says) and sandbox["git"].ok is git
    assert sandbox["git"].says.startswith("confined runs" if git else "runs are not sealed: ")
    assert ("`.git` is read-only" in sandbox["git"].says) is (ok and not git)
    assert ("limits" in sandbox) is ok and "bubblewrap" in sandbox["git"].fix and "cgroup" not in sandbox


def test_a_key_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    result = CliRunner().invoke(doctor, ["--offline"])
    assert "OPENAI_API_KEY set" in result.output and "very-secret" not in result.output
