from pathlib import Path

import pytest

from treadle.errors import ConfigError
from treadle.terminal.settings import POLICIES, TerminalSettings, child_environment


def settings(**values: object) -> TerminalSettings:
    found = TerminalSettings()
    found.command = ["true"]
    for name, value in values.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"command": []}, "no command"),
        ({"command": ["a\0b"]}, "NUL"),
        ({"resize_policy": "x"}, "resize_policy"),
        ({"workdir": "/no/such/place"}, "/no/such/place"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings(**values).check()


def test_the_child_gets_our_environment_but_not_our_terminal() -> None:
    ours = {"HOME": "/h", "TMUX": "x", "COLUMNS": "10", "TERM": "screen", "NOTIFY_SOCKET": "/x", "KEY": "kept"}
    found = child_environment(settings(id="a1", env=[("KEY", "new"), ("MORE", "1")], state_file="/s"), ours)
    assert found == {
        "HOME": "/h",
        "TERM": "screen",
        "KEY": "new",
        "MORE": "1",
        "HEIMDALL_SESSION_ID": "a1",
        "TREADLE_STATE_FILE": "/s",
    }


@pytest.mark.parametrize(
    ("ours", "given", "term"), [("", "", "xterm-256color"), ("dumb", "", "xterm-256color"), ("a", "b", "b")]
)
def test_term_is_ours_unless_it_is_none_or_another_is_wanted(ours: str, given: str, term: str) -> None:
    assert child_environment(settings(term=given), {"TERM": ours})["TERM"] == term


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("cols", 0, 0xFFFF),
        ("rows", 0, 0xFFFF),
        ("scrollback_bytes", 0, 1 << 30),
        ("idle_threshold_ms", 1, 1 << 31),
        ("debounce_ms", 0, 1 << 31),
        ("detach_key", 0, 255),
        ("prefix_key", 0, 31),
        ("clients_max", 1, 1 << 16),
    ],
)
def test_a_number_may_be_as_small_and_as_large_as_is_said(name: str, least: int, most: int) -> None:
    for value in (least, most):
        assert settings(**{name: value}).check().workdir
    for value in (least - 1, most + 1, True, 1.5, "1"):
        with pytest.raises(ConfigError, match=f"{name} is .*; it must be a whole number from {least} to {most}"):
            settings(**{name: value}).check()


def test_the_working_directory_is_the_real_one_and_choices_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings(workdir="~").check().workdir == str(tmp_path.resolve())
    with pytest.raises(ConfigError, match="classifier is 'x'; it must be one of simple, claude, none"):
        settings(classifier="x").check()
    for policy in POLICIES:
        settings(resize_policy=policy).check()
