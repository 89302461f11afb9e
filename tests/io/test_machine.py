"""This machine, and its file system as permission rules see it."""

import os
import shutil
from pathlib import Path

import pytest

from treadle.io import machine
from treadle.io.machine import DISK, RememberingDisk


def test_processors_are_told_as_a_share_of_the_time_since_the_look_before() -> None:
    look = machine.MachineLook()
    before = os.times()
    while (now := os.times()).user + now.system - before.user - before.system < 0.2:
        sum(range(10000))
    used = look.cpu()
    assert used is not None and 0.0 < used <= 1.0


def test_memory_and_disk_are_what_the_system_says(tmp_path: Path) -> None:
    free, whole = machine.memory()
    assert 0 < free <= whole == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    free, whole = machine.disk(str(tmp_path))
    assert 0 < free <= whole == shutil.disk_usage(tmp_path).total


def test_what_the_kernel_says_is_counted_and_what_it_does_not_say_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat, meminfo = tmp_path / "stat", tmp_path / "meminfo"
    monkeypatch.setattr(machine, "PROC", str(tmp_path))

    def ticks(*counts: int) -> None:
        stat.write_text(f"cpu {' '.join(map(str, counts))}\ncpu0 9 9 9 9 9 9 9 9 9 9\n")

    ticks(10, 0, 10, 100, 20, 0, 0, 0, 5, 5)
    look = machine.MachineLook()
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
    assert machine.MachineLook().cpu() is None
    meminfo.write_text("MemTotal: 8 kB\nno colon\nMemAvailable:    3 kB\n")
    assert machine.memory() == (3072, 8192)
    for text in ("MemTotal: 8 kB\n", "MemTotal: x kB\nMemAvailable: 3 kB\n", "MemTotal:\nMemAvailable: 3 kB\n"):
        meminfo.write_text(text)
        assert machine.memory() == (0, 0)
    meminfo.unlink()
    assert machine.memory() == (0, 0)


def test_links_are_followed_and_wildcards_found_in_a_directory_of_any_name(tmp_path: Path) -> None:
    base = tmp_path / "od[d]*"
    base.mkdir()
    (base / "a.txt").touch()
    (base / "link").symlink_to("a.txt")
    assert DISK.real(str(base / "link")) == str(base / "a.txt")
    assert list(DISK.found(str(base), "*.txt")) == [str(base / "a.txt")]
    assert list(DISK.found(str(base), str(tmp_path / "*"))) == [str(base)]


def test_a_home_directory_is_put_in_its_place() -> None:
    assert DISK.expand("~/x") == os.path.join(os.path.expanduser("~"), "x")
    assert DISK.expand("plain~") == "plain~"


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


def test_each_directory_is_looked_at_once_until_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "way").symlink_to("real")
    disk, looked, usual = RememberingDisk(), [], os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path: (looked.append(path), usual(path))[1])
    for name in "xy":
        assert disk.real(f"{tmp_path}/way/{name}") == f"{tmp_path}/real/{name}"
    assert looked == [f"{tmp_path}/way"]
    disk.forget()
    assert disk.real(f"{tmp_path}/way/x") == f"{tmp_path}/real/x" and len(looked) == 2
    assert disk.real(f"{tmp_path}/way") == f"{tmp_path}/real" and disk.real("/x") == "/x"


@pytest.mark.parametrize(("named", "end"), [("/proc/1/cwd", "/proc/1/cwd"), (None, "/")])
def test_what_may_not_be_read_is_the_end_of_the_way(
    monkeypatch: pytest.MonkeyPatch, named: str | None, end: str
) -> None:
    def refused(path: str) -> str:
        raise PermissionError(13, "no", named)

    monkeypatch.setattr(os.path, "realpath", refused)
    assert DISK.real("/proc/1/cwd/x") == end
