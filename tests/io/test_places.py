"""Where things are kept: private directories, short socket paths, temporary directories, and what the machine says."""

import os
import pwd
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.descriptors import opened
from treadle.errors import ConfigError, StorageError
from treadle.fleet import node
from treadle.io import paths, scratch
from treadle.io.paths import DISK, RememberingDisk


def test_the_home_directory_is_written_short_and_nothing_that_only_begins_like_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    shown = [paths.at_home(path) for path in ("/home/ann", "/home/ann/w", "/home/anne", "/tmp", "")]
    assert shown == ["~", "~/w", "/home/anne", "/tmp", ""]


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
    with pytest.raises(StorageError, match="belongs to user .*, so nothing is stored there"):
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
    with pytest.raises(StorageError, match="cannot create the private directory .*: No such file"):
        paths.private_dir(str(tmp_path / "dangling"))
    with pytest.raises(StorageError, match="cannot create the private directory"):
        paths.private_dir(str(tmp_path / "file" / "below"))


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


HOLDS = """
import sys
from treadle.io import scratch
place = scratch.make("test")
open(f"{place}/kept", "w").close()
print(place, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def holder() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_it_is_there_until_it_is_removed(tmp_path: Path) -> None:
    with scratch.directory("one") as place:
        (Path(place) / "deep").mkdir()
        assert Path(place).stat().st_mode & 0o777 == 0o700 and os.path.dirname(place) == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_living_process_stays_and_that_of_a_killed_one_goes(
    holder: tuple[subprocess.Popen[str], Path],
) -> None:
    process, place = holder
    with scratch.directory("test"):
        assert (place / "kept").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert place.exists()
    with scratch.directory("other"):
        assert not place.exists()


def test_one_that_was_never_held_goes_after_a_while_and_others_things_are_left_alone(tmp_path: Path) -> None:
    new, old, foreign, link = (tmp_path / name for name in (".treadle-tmp-a", ".treadle-tmp-b", "treadle-x", "t"))
    for one in (new, old, foreign):
        one.mkdir()
    os.utime(old, (1, 1))
    link.symlink_to(foreign)
    link.rename(tmp_path / "treadle-tmp-link")
    with scratch.directory("test"):
        assert new.exists() and foreign.exists() and not old.exists()
    assert (tmp_path / "treadle-tmp-link").is_symlink()


def test_what_this_process_holds_goes_at_once_and_its_lock_with_it(tmp_path: Path) -> None:
    before = opened()
    one, two = scratch.make("one"), scratch.make("two")
    assert os.path.basename(one).startswith("treadle-tmp-one-") and os.path.basename(two).startswith("treadle-tmp-two-")
    (tmp_path / "treadle-tmp-left").mkdir()
    (tmp_path / ".treadle-tmp-new").mkdir()
    scratch.remove_all()
    assert os.listdir(tmp_path) == [".treadle-tmp-new"] and opened() == before
    with pytest.raises(ZeroDivisionError), scratch.directory("three"):
        raise ZeroDivisionError
    scratch.remove(str(tmp_path / "none"))
    assert os.listdir(tmp_path) == [".treadle-tmp-new"] and opened() == before


def test_what_belongs_to_another_user_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "treadle-tmp-x").mkdir()
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    scratch.remove_all()
    assert os.listdir(tmp_path) == ["treadle-tmp-x"]


def test_what_the_kernel_says_is_counted_and_what_it_does_not_say_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat, meminfo = tmp_path / "stat", tmp_path / "meminfo"
    monkeypatch.setattr(node, "PROC", str(tmp_path))

    def ticks(*counts: int) -> None:
        stat.write_text(f"cpu {' '.join(map(str, counts))}\ncpu0 9 9 9 9 9 9 9 9 9 9\n")

    ticks(10, 0, 10, 100, 20, 0, 0, 0, 5, 5)
    look = node.MachineLook()
    assert look.cpu() is None, "no time has passed"
    ticks(20, 5, 15, 150, 30, 0, 0, 0, 500, 500)
    assert look.cpu() == 20 / 80
    ticks(30, 5, 15, 150, 30, 0, 0, 0, 500, 500)
    assert look.cpu() == 1.0, "since the look before"
    ticks(20, 5, 15, 170, 30, 0, 0, 0, 500, 500)
    assert look.cpu() == 0.0, "a count that went back is no time"
    stat.write_text("nonsense here\n")
    assert look.cpu() is None
    stat.unlink()
    assert node.MachineLook().cpu() is None
    meminfo.write_text("MemTotal: 8 kB\nno colon\nMemAvailable:    3 kB\n")
    assert node.memory_of_machine() == (3072, 8192)
    for text in ("MemTotal: 8 kB\n", "MemTotal: x kB\nMemAvailable: 3 kB\n", "MemTotal:\nMemAvailable: 3 kB\n"):
        meminfo.write_text(text)
        assert node.memory_of_machine() == (0, 0)
    meminfo.unlink()
    assert node.memory_of_machine() == (0, 0)


def test_links_are_followed_and_wildcards_found_in_a_directory_of_any_name(tmp_path: Path) -> None:
    base = tmp_path / "od[d]*"
    base.mkdir()
    (base / "a.txt").touch()
    (base / "link").symlink_to("a.txt")
    assert DISK.real(str(base / "link")) == str(base / "a.txt")
    assert list(DISK.found(str(base), "*.txt")) == [str(base / "a.txt")]
    assert list(DISK.found(str(base), str(tmp_path / "*"))) == [str(base)]


def test_a_disk_that_remembers_follows_links_and_forgets_when_told(tmp_path: Path) -> None:
    disk = RememberingDisk()
    resolve = disk.real
    (tmp_path / "real").mkdir()
    (tmp_path / "way").symlink_to("real")
    (tmp_path / "real" / "link").symlink_to("/etc")
    for path in ("way/x", "way/link", "way/link/passwd", "real/..", "real/.", "real/", "none/x", "way"):
        assert resolve(str(tmp_path / path)) == os.path.realpath(tmp_path / path)
    assert resolve("/x") == "/x" and resolve("x") == os.path.realpath("x")
    (tmp_path / "way").unlink()
    (tmp_path / "way").mkdir()
    disk.forget()
    assert resolve(str(tmp_path / "way/x")) == str(tmp_path / "way/x")


def test_a_link_that_may_not_be_read_is_where_the_way_ends() -> None:
    """Whether the links of process 1 may be read depends on the machine; either way there is no error."""
    try:
        expected = os.path.realpath("/proc/1/cwd/x")
    except PermissionError:
        expected = "/proc/1/cwd"
    assert DISK.real("/proc/1/cwd/x") == expected
