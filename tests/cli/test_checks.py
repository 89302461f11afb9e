"""What each area of the doctor finds where something is missing, and what it says to do about it."""

from pathlib import Path

import pytest

from treadle.cli import checks
from treadle.io.paths import config_file


@pytest.fixture(autouse=True)
def afresh() -> None:
    """Settings are read once in a process, and each test has its own."""
    checks._configuration.cache_clear()


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which there is nothing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def found(area: str) -> dict[str, checks.Finding]:
    return {each.name: each for each in checks.AREAS[area](True)}


def test_git_is_named_with_its_version_or_to_be_installed(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = found("the machine")["git"]
    assert not missing.ok and not missing.needed and missing.fix == "install git"
    program = bare / "git"
    program.write_text("#!/bin/sh\necho git version 7\n")
    program.chmod(0o755)
    assert found("the machine")["git"].says == f"git version 7 at {program}"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert not found("the machine")["git"].ok


def test_the_state_directory_is_tried_and_nothing_is_left_in_it(state_home: Path) -> None:
    assert found("the state directory")["directory"].ok
    assert not [path for path in state_home.rglob("*") if path.name == ".doctor"]


def test_a_missing_ripgrep_is_only_as_bad_as_what_needs_it(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.agent.tools.ripgrep.find", lambda: None)
    missing = found("optional parts")["ripgrep"]
    assert not missing.ok and not missing.needed and "grep" in missing.says and missing.fix == "install ripgrep"


def test_a_part_that_is_not_installed_is_told_from_one_that_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_part.py").write_text("raise ValueError('wrong wheel')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(checks, "PROVIDES", {"fleet": "absent_part", "local": "broken_part"})
    parts = found("optional parts")
    assert parts["fleet"].says.startswith("not installed: ") and "fleet" in parts["fleet"].says
    assert parts["local"].says == "installed, but cannot be loaded: wrong wheel" and parts["local"].fix.endswith(
        "again"
    )


def test_settings_that_are_ignored_are_named_with_what_trusts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".treadle").mkdir()
    (tmp_path / ".treadle" / "config.toml").write_text('permission_mode = "yolo"\n')
    monkeypatch.chdir(tmp_path)
    ignored = found("the settings")["ignored"]
    assert not ignored.ok and "treadle trust" in ignored.fix


def test_while_the_settings_are_refused_no_model_is_claimed_to_work() -> None:
    file = Path(config_file())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('permission_mode = "recklessly"\n')
    assert [(each.name, each.ok) for each in checks.models(True)] == [("chosen", False)]
    (settings,) = checks.settings(True)
    assert settings.needed and not settings.ok and settings.fix.startswith("settings: ")


def test_offline_no_service_is_contacted_and_no_agent_started(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert found("models")["openai"].says.endswith("(not contacted)") and found("models")["openai"].ok
    assert not any(each.ok and "answers" in each.says for each in found("agents").values())


def test_a_fleets_engine_is_named_with_where_it_came_from() -> None:
    engine = found("the fleet")["nats-server"]
    assert engine.ok and " at /" in engine.says
