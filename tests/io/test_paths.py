"""Directories are private, and socket paths are always short enough."""

import os
import pwd
import socket
import stat
from pathlib import Path

import pytest

from treadle.errors import ConfigError, StorageError
from treadle.io import paths


def test_treadle_home_beats_the_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "/elsewhere")
    assert paths.state_dir() == str(tmp_path)
    assert paths.config_file() == str(tmp_path / "config.toml")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TREADLE_HOME", "~/x")
    assert paths.state_dir() == str(tmp_path / "x") and paths.config_file() == str(tmp_path / "x" / "config.toml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREADLE_HOME", "y")
    assert paths.state_dir() == str(tmp_path / "y") and paths.here() == str(tmp_path)


def test_a_working_directory_that_is_gone_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ConfigError, match="the working directory is gone: No such file or directory"):
        paths.here()


def test_without_treadle_home_the_xdg_directories_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TREADLE_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/config")
    assert paths.state_dir() == "/data/treadle"
    assert paths.config_file() == "/config/treadle/config.toml"


def test_a_relative_xdg_path_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TREADLE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert paths.state_dir() == "/home/me/.local/share/treadle"
    assert paths.config_file() == "/home/me/.config/treadle/config.toml"


@pytest.mark.parametrize("home", ["", "relative", "./x"])
def test_a_home_that_is_empty_or_relative_is_an_error(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    """State and keys would end up in whatever directory the person is in."""
    for name in ("TREADLE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)
    for ask in (paths.home, paths.state_dir, paths.config_file):
        with pytest.raises(ConfigError, match=f"HOME is {f'a relative path .{home}.' if home else 'empty'}, so there"):
            ask()
    monkeypatch.delenv("HOME")
    assert paths.home() == pwd.getpwuid(os.getuid()).pw_dir


def test_a_private_directory_and_its_new_parents_are_for_us_alone(tmp_path: Path) -> None:
    made = paths.private_dir(str(tmp_path / "a" / "b"))
    assert [stat.S_IMODE(os.stat(place).st_mode) for place in (tmp_path / "a", made)] == [0o700, 0o700]


def test_a_directory_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    made = paths.private_dir(str(tmp_path / "open"))
    assert stat.S_IMODE(os.stat(made).st_mode) == 0o700


def test_a_directory_that_belongs_to_another_is_refused(tmp_path: Path) -> None:
    other = "/"
    if os.geteuid() == 0:
        other = str(tmp_path / "theirs")
        os.mkdir(other)
        os.chown(other, 65534, 65534)
    with pytest.raises(StorageError, match="belongs to user .*, so nothing is kept there"):
        paths.private_dir(other)
    if os.geteuid() == 0:
        (tmp_path / "ours").mkdir()
        (tmp_path / "link").symlink_to("ours")
        assert paths.private_dir(str(tmp_path / "link")) == str(tmp_path / "link")
        os.lchown(tmp_path / "link", 65534, 65534)
        with pytest.raises(StorageError, match="belongs to user 65534, not to user 0"):
            paths.private_dir(str(tmp_path / "link"))


def test_a_directory_shared_by_all_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(StorageError, match="shared"):
        paths.private_dir(str(shared))
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


def test_a_file_in_the_way_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file is not a directory"):
        paths.private_dir(str(tmp_path / "file"))
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(StorageError, match="cannot make the private directory .*: No such file"):
        paths.private_dir(str(tmp_path / "dangling"))
    with pytest.raises(StorageError, match="cannot make the private directory"):
        paths.private_dir(str(tmp_path / "file" / "below"))


def test_a_short_socket_path_is_left_alone(tmp_path: Path) -> None:
    assert paths.socket_path("/run/x", "a.sock") == "/run/x/a.sock"


@pytest.mark.parametrize("runtime", [True, False])
def test_a_long_socket_path_becomes_a_short_one_that_can_be_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: bool
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path) if runtime else "")
    long = str(tmp_path / ("deep" * 40))
    path = paths.socket_path(long, "a.sock")
    assert path == paths.socket_path(long, "a.sock") != paths.socket_path(long, "b.sock")
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
    os.unlink(path)


def test_the_longest_allowed_path_is_used_as_it_is(tmp_path: Path) -> None:
    directory = str(tmp_path)
    name = "n" * (paths.SOCKET_PATH_MAX - len(directory) - 1)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(paths.socket_path(directory, name))
    assert (tmp_path / name).exists()


def test_a_short_place_is_used_only_if_it_is_ours_and_short_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "/" + "x" * 200
    padding = paths.SOCKET_PATH_MAX - len(str(tmp_path)) - len("//treadle/") - 24
    runtime = tmp_path / ("r" * padding)
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    found = paths.socket_path(long, "s")
    assert found.startswith(f"{runtime}/treadle/") and len(found) == paths.SOCKET_PATH_MAX
    usual = f"/tmp/treadle-{os.geteuid()}/{os.path.basename(found)}"
    runtime.rename(f"{runtime}r")
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"{runtime}r")
    assert paths.socket_path(long, "s") == usual
    (tmp_path / "treadle").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert paths.socket_path(long, "s") == usual
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    with pytest.raises(StorageError, match="too long for a Unix socket and there is no private place") as caught:
        paths.socket_path(long, "s")
    assert caught.value.hint == f"set TREADLE_HOME to a path shorter than {paths.SOCKET_PATH_MAX - 1} bytes"


def test_a_directory_that_is_private_already_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = paths.private_dir(str(tmp_path / "a"))
    monkeypatch.setattr(os, "chmod", None)
    assert paths.private_dir(made) == made
