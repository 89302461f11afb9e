from pathlib import Path

import pytest

from treadle.errors import ConfigError, StorageError
from treadle.terminal.config import load
from treadle.terminal.settings import TerminalSettings


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(text: str, path: Path, named: bool = True) -> tuple[TerminalSettings, list[str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    settings = TerminalSettings()
    return settings, load(settings, str(path) if named else "")


def test_without_any_file_there_are_the_defaults() -> None:
    settings = TerminalSettings()
    assert load(settings) == []
    assert (settings.scrollback_bytes, settings.classifier, settings.detach_key) == (65536, "simple", 28)


def test_every_key_of_the_protocols_file_is_read(tmp_path: Path) -> None:
    text = """
socket_dir = "~/socks"
scrollback_bytes = 1000
session_env_var = "SID"
kill_process_group = false
log_file = "~/x.log"
log_level = "trace"
detach_key = 0
unknown_key = "ignored"
[classifier.claude]
idle_threshold_ms = 100
debounce_ms = 5
[[env]]
name = "A"
value = "1"
"""
    settings, ignored = read(text, tmp_path / "x.toml")
    assert ignored == []
    home = str(Path.home())
    assert (settings.directory, settings.log_file) == (f"{home}/socks", f"{home}/x.log")
    assert (settings.classifier, settings.idle_threshold_ms, settings.debounce_ms) == ("claude", 100, 5)
    assert (settings.kill_process_group, settings.log_level, settings.env) == (False, "debug", [("A", "1")])


def test_the_first_file_found_counts_and_nothing_is_merged(tmp_path: Path, state_home: Path) -> None:
    read("scrollback_bytes = 1\ndetach_key = 5", state_home / ".config/heimdall/heimdall.toml")
    own = state_home / "treadle" / "config.toml"
    settings, _ = read("[terminal]\nscrollback_bytes = 3", own, named=False)
    assert (settings.scrollback_bytes, settings.detach_key) == (1, 5)
    settings, _ = read("scrollback_bytes = 2", tmp_path / "heimdall.toml", named=False)
    assert (settings.scrollback_bytes, settings.detach_key) == (2, 28)


def test_the_users_own_configuration_has_a_table_for_it(state_home: Path) -> None:
    settings, _ = read(
        '[terminal]\nresize_policy = "smallest"\nlinger = 3', state_home / "treadle/config.toml", named=False
    )
    assert (settings.resize_policy, settings.linger) == ("smallest", 3)


def test_a_file_from_a_repository_is_heard_only_in_what_does_no_harm(tmp_path: Path) -> None:
    text = (
        'scrollback_bytes = 9\nlog_file = "/etc/passwd"\nsocket_dir = "/tmp"\n[[env]]\nname = "PATH"\nvalue = "/evil"'
    )
    settings, ignored = read(text, tmp_path / "heimdall.toml", named=False)
    assert (settings.scrollback_bytes, settings.log_file, settings.directory, settings.env) == (9, "", "", [])
    assert [line.split(": ")[1].split()[0] for line in ignored] == ["env", "log_file", "socket_dir"]
    settings, ignored = read(text, tmp_path / "heimdall.toml")
    assert ignored == [] and settings.env == [("PATH", "/evil")]


@pytest.mark.parametrize(
    "text",
    [
        "scrollback_bytes = 'many'",
        "kill_process_group = 1",
        'classifier = "psychic"',
        "[classifier.simple]\n[classifier.claude]",
        'env = "A=1"',
        '[[env]]\nname = "A"',
        'log_level = "loud"',
        'resize_policy = "biggest"',
        "not toml",
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_the_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="x.toml"):
        read(text, tmp_path / "x.toml")


def test_a_named_file_that_is_missing_is_an_error() -> None:
    with pytest.raises(StorageError, match="nowhere.toml"):
        load(TerminalSettings(), "nowhere.toml")
