"""What a machine can put to work is found without starting an agent or asking a service."""

from pathlib import Path

import pytest

from treadle.fleet import node
from treadle.io.paths import config_file


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it, in a home of its own."""
    made = tmp_path / "programs"
    made.mkdir()
    monkeypatch.setenv("PATH", str(made))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("TREADLE_MODEL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def settings(programs: Path) -> Path:
    path = Path(config_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def install(programs: Path, name: str) -> None:
    (programs / name).write_text("#!/bin/sh\nexit 1\n")
    (programs / name).chmod(0o755)


def test_only_our_own_agent_is_there_before_another_is_installed(programs: Path) -> None:
    assert node.of_machine() == {"native": ()}
    install(programs, "claude")
    assert set(node.of_machine()) == {"native", "claude"}


def test_models_are_those_that_were_chosen_and_those_that_a_key_is_there_for(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_MODEL", "ollama:small")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    first, second = node.of_machine()["native"]
    assert first == "ollama:small" and second.startswith("anthropic:")


def test_an_agent_of_the_settings_is_there_with_its_models(programs: Path, settings: Path) -> None:
    install(programs, "weave")
    settings.write_text(
        '[agents.weaver]\nspeaks = "acp"\ncommand = "weave --fast"\nmodel = "big"\nmodels = { small = "w-1" }\n'
        '[agents.absent]\nspeaks = "acp"\ncommand = "not-there"\n'
    )
    assert node.of_machine() == {"native": (), "weaver": ("big", "small")}


def test_settings_that_cannot_be_read_leave_our_own_agent(programs: Path, settings: Path) -> None:
    settings.write_text("[agents")
    assert node.of_machine() == {"native": ()}


def test_models_are_named_once_and_no_more_than_a_person_reads(programs: Path, settings: Path) -> None:
    install(programs, "weave")
    models = ", ".join(f'm{number} = "x"' for number in range(node.MOST + 5))
    settings.write_text(
        f'[agents.weaver]\nspeaks = "acp"\ncommand = "weave"\nmodel = "m3"\nmodels = {{ {models} }}\n'
        '[agents.broken]\nspeaks = "acp"\n'
    )
    found = node.of_machine({"HOME": str(settings.parent), "PATH": str(programs)})
    assert len(found["weaver"]) == node.MOST and found["weaver"][:3] == ("m3", "m0", "m1") and "broken" not in found
