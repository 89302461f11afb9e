"""Whole or not at all: after kill -9, on a full disk, and with many writers at once."""

import errno
import fcntl
import hashlib
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treadle
from treadle.errors import Busy, StorageError
from treadle.io import files
from treadle.io import files as files_module
from treadle.io.files import (
    follow_lines,
    read,
    read_ends,
    read_if_there,
    sha256,
    state_number,
    state_numbers,
    text_if_there,
)


# Replacing...
def test_a_write_replaces_the_content_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "state"
    files.write_atomic(str(path), b"old")
    files.write_atomic(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["state"]


def test_a_device_is_written_to_and_never_replaced() -> None:
    master, slave = os.openpty()  # not /dev/null: root could replace that, and would if this ever failed
    try:
        files.write_atomic(os.ttyname(slave), b"new")
        assert os.read(master, 10) == b"new"
        assert stat.S_ISCHR(os.stat(os.ttyname(slave)).st_mode)
    finally:
        os.close(master)
        os.close(slave)


def test_a_file_has_the_mode_that_is_given_whatever_the_umask_unless_it_keeps_its_own(tmp_path: Path) -> None:
    path, fresh, before = tmp_path / "a", tmp_path / "b", os.umask(0o077)

    def mode(place: Path, asked: int, **how: bool) -> int:
        files.write_atomic(str(place), b"new", asked, **how)
        return stat.S_IMODE(place.stat().st_mode)

    try:
        assert mode(path, 0o644) == 0o644
        path.chmod(0o4755)
        assert mode(path, 0o640, keep_mode=True) == 0o4755 and mode(path, 0o640) == 0o640
        assert mode(fresh, 0o640, keep_mode=True) == 0o640
    finally:
        os.umask(before)


def test_what_is_created_is_for_nobody_else_and_what_is_appended_comes_after_what_was_there(tmp_path: Path) -> None:
    for name, begin, content in (("a", files.created, b"two"), ("b", files.appending, b"onetwo")):
        path = tmp_path / name
        for word in (b"one", b"two"):
            with begin(str(path)) as file:
                file.write(word)
                assert path.read_bytes().endswith(word), "written at once"
        assert path.read_bytes() == content and stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_existing_file_keeps_its_owner_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.write_text("old")
    if os.geteuid() == 0:  # only root can give files away
        os.chown(path, 65534, 65534)
    before = path.stat()
    files.write_atomic(str(path), b"new", keep_mode=True)
    after = path.stat()
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid) and after.st_ino != before.st_ino


def test_a_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    files.write_atomic(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_name_as_long_as_names_can_be_is_written(tmp_path: Path) -> None:
    files.write_atomic(str(tmp_path / ("n" * 255)), b"x")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"x"


def test_an_error_names_the_path_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="absent/file.*its directory does not exist"):
        files.write_atomic(str(tmp_path / "absent" / "file"), b"")
    missing = str(tmp_path / "file")
    error = files.storage_error(FileNotFoundError(errno.ENOENT, "No such file or directory"), missing, "read")
    assert str(error) == f"cannot read {missing}: No such file or directory"
    denied = files.storage_error(PermissionError(errno.EACCES, "Permission denied"), missing, "read")
    assert denied.hint == "check who owns it and its permissions"
    plain = files.storage_error(OSError("odd"), missing, "read")
    assert str(plain) == f"cannot read {missing}: odd" and plain.hint is None
    with pytest.raises(StorageError, match="cannot write /dev/full: .*disk is full"):
        files.write_atomic("/dev/full", b"x")


def test_what_is_written_is_locked_meanwhile_and_synced_with_its_directory_unless_that_is_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    usual = os.fsync

    def fsync(fd: int) -> None:
        synced.append("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        for unfinished in filter(files.is_unfinished, os.listdir(tmp_path)):
            with open(tmp_path / unfinished, "rb") as other, pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            synced.append("locked")
        usual(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    files.write_atomic(str(tmp_path / "a"), b"one")
    assert synced == ["file", "locked", "directory"]
    files.write_atomic(str(tmp_path / "a"), b"two", sync=False)
    files.append_line(str(tmp_path / "log"), b"line")
    assert len(synced) == 3
    files.append_line(str(tmp_path / "log"), b"line", sync=True)
    assert synced[3:] == ["file"]
    files.write(str(tmp_path / "plain"), b"words")
    files.write(str(tmp_path / "plain"), b"words", sync=True)
    assert synced[4:] == ["file"]


def test_in_an_open_directory_a_link_to_a_pipe_is_replaced_and_elsewhere_it_is_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        files.write_atomic(str(tmp_path / "link"), b"through")
        assert os.read(reader, 100) == b"through" and (tmp_path / "link").is_symlink()
        files.write_atomic("pipe", b"again", dir_fd=directory)
        assert os.read(reader, 100) == b"again"
        files.write_atomic("link", b"ours", 0o640, keep_mode=True, dir_fd=directory)
    finally:
        os.close(directory)
        os.close(reader)
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "link").read_bytes() == b"ours"
    assert stat.S_IMODE((tmp_path / "link").stat().st_mode) == 0o640, "a link has no mode to keep"


def test_a_file_is_moved_over_another_and_one_that_is_not_there_is_said(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    Path(old).write_text("x")
    Path(new).write_text("before")
    files.move(old, new)
    assert Path(new).read_text() == "x" and not os.path.exists(old)
    with pytest.raises(StorageError, match=f"cannot move {old}"):
        files.move(old, new)


# Appending...
def test_lines_come_back_as_they_were_appended(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    files.append_line(path, b"one")
    files.append_lines(path, [b"two\r", "thr\u2028ee".encode(), b""])
    assert files.read_lines(path) == ([b"one", b"two\r", "thr\u2028ee".encode(), b""], b"")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_nothing_to_append_makes_no_file(tmp_path: Path) -> None:
    files.append_lines(str(tmp_path / "log"), [])
    assert os.listdir(tmp_path) == []


def test_a_newline_inside_a_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        files.append_line(str(tmp_path / "log"), b"a\nb")


def test_what_is_written_after_a_torn_line_was_read_is_not_taken_for_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntw")
    lines = files.iter_lines(str(log))
    reading = iter(lines)
    assert next(reading) == b"one"
    with log.open("ab") as file:
        file.write(b"o\n" + b"x" * 100_000)
    rest = list(reading)
    assert rest in ([], [b"two"]) and lines.torn


def test_a_log_nobody_wrote_to_is_empty(tmp_path: Path) -> None:
    assert files.read_lines(str(tmp_path / "none")) == ([], b"")


def test_a_log_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot read"):
        files.read_lines(str(tmp_path))


@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.data())
def test_a_log_cut_anywhere_keeps_its_complete_lines_and_can_be_added_to(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], data: st.DataObject
) -> None:
    path = str(tmp_path_factory.mktemp("cut") / "log")
    files.append_lines(path, [*lines, b"end"])
    cut = data.draw(st.integers(0, os.path.getsize(path)))
    os.truncate(path, cut)
    kept, torn = files.read_lines(path)
    assert kept == [*lines, b"end"][: len(kept)]
    files.append_line(path, b"after")
    assert files.read_lines(path) == ([*kept, *([torn] if torn else []), b"after"], b"")


APPENDER = """
import sys
sys.path.insert(0, {src!r})
from treadle.io.files import append_line, write_atomic
path, name, count, size = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])
for number in range(count):
    append_line(path, name + b" %d " % number + b"x" * size)
    print(number, flush=True)
"""

SRC = str(Path(treadle.__file__).parents[1])


def appender(path: Path, name: str, count: int, size: int, **more: object) -> subprocess.Popen[bytes]:
    code = APPENDER.format(src=SRC)
    argv = [sys.executable, "-I", "-S", "-c", code, str(path), name, str(count), str(size)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)  # type: ignore[call-overload,no-any-return]


def test_two_hundred_appenders_at_once_lose_and_mix_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def run(name: str) -> None:
        for number in range(20):
            files.append_line(str(log), f"{name} {number} {'x' * 5000}".encode())

    # Each call opens the file again, so threads contend for the lock exactly as processes do; some are processes too.
    processes = [appender(log, f"p{index}", 20, 5000) for index in range(8)]
    threads = [threading.Thread(target=run, args=(f"t{index}",)) for index in range(192)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for process in processes:
        assert process.communicate(timeout=60)[1] == b""
    lines, torn = files.read_lines(str(log))
    assert torn == b"" and len(lines) == 200 * 20
    assert all(line.endswith(b"x" * 5000) for line in lines)
    assert len({line.split(b"x")[0] for line in lines}) == 200 * 20
    for name in ("p0", "t0"):
        mine = [line for line in lines if line.startswith(name.encode() + b" ")]
        assert [int(line.split()[1]) for line in mine] == list(range(20))


def test_what_an_appender_said_it_wrote_survives_kill_9_at_any_point(tmp_path: Path) -> None:
    choose = random.Random(1)
    for round_ in range(5):
        log = tmp_path / f"log{round_}"
        process = appender(log, "w", 1_000_000, choose.choice([10, 3000, 200_000]))
        assert process.stdout is not None
        told = b""
        while told.count(b"\n") < choose.randrange(1, 60):
            told += os.read(process.stdout.fileno(), 65536)
        process.kill()
        told += process.communicate()[0]
        lines, _ = files.read_lines(str(log))
        acknowledged = told.count(b"\n")
        assert [int(line.split()[1]) for line in lines] == list(range(len(lines)))
        assert len(lines) >= acknowledged


WRITER = """
import sys
sys.path.insert(0, {src!r})
from treadle.io.files import write_atomic
number = 0
while True:
    number += 1
    write_atomic(sys.argv[1], (b"%d\\n" % number) * 20000, sync=False)
    print(number, flush=True)
"""


def test_a_file_being_replaced_is_whole_after_kill_9_at_any_point(tmp_path: Path) -> None:
    choose = random.Random(2)
    for round_ in range(5):
        path = tmp_path / f"state{round_}"
        code = WRITER.format(src=SRC)
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", code, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        told = b""
        while told.count(b"\n") < choose.randrange(1, 30):
            told += os.read(process.stdout.fileno(), 65536)
        process.kill()
        told += process.communicate()[0]
        lines = path.read_bytes().splitlines()
        assert len(lines) == 20000 and len(set(lines)) == 1
        assert int(lines[0]) >= int(told.split()[-1])


# Disks that fill up...
def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_an_append_that_does_not_fit_leaves_whole_lines_and_says_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = appender(log, "w", 100, 30_000, preexec_fn=limit_file_size)
    out, err = process.communicate(timeout=60)
    assert b"StorageError: cannot append to" in err and b"size limit" in err
    lines, torn = files.read_lines(str(log))
    assert torn == b"" and len(lines) == len(out.split()) == 3


def test_a_replacement_that_does_not_fit_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    code = f"import sys; sys.path.insert(0, {SRC!r})\nfrom treadle.io.files import write_atomic\n"
    code += f"write_atomic({str(path)!r}, b'n' * 200_000)"
    argv = [sys.executable, "-I", "-S", "-c", code]
    result = subprocess.run(argv, preexec_fn=limit_file_size, stderr=subprocess.PIPE)
    assert b"StorageError: cannot write" in result.stderr
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        return Path("/dev/full")  # without the right to mount
    return disk


def test_a_device_that_is_full_says_so_though_it_cannot_be_cut_back() -> None:
    with pytest.raises(StorageError, match="disk is full"):
        files.append_line("/dev/full", b"x")


def test_a_full_disk_is_named_and_loses_nothing_already_written(
    small_disk: Path, request: pytest.FixtureRequest
) -> None:
    if small_disk == Path("/dev/full"):
        return
    request.addfinalizer(lambda: subprocess.run(["umount", str(small_disk)], check=True))
    log = str(small_disk / "log")
    count = 0
    with pytest.raises(StorageError, match="disk is full"):
        while True:
            files.append_line(log, b"x" * 9000)
            count += 1
    assert count and files.read_lines(log) == ([b"x" * 9000] * count, b"")
    with pytest.raises(StorageError, match="disk is full"):
        files.write_atomic(str(small_disk / "state"), b"y" * 60_000)
    assert os.listdir(small_disk) == ["log"]
    os.truncate(log, 9001)
    files.append_line(log, b"room again")
    assert files.read_lines(log)[0][-1] == b"room again"


# Locks...
def test_a_lock_has_one_holder_and_the_other_is_told_who(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with files.locked(path):
        with pytest.raises(Busy) as caught, files.locked(path, timeout=0):
            pass
    assert "gave up after 0 s" in str(caught.value)
    if os.path.exists("/proc/locks"):
        assert f"by process {os.getpid()}" in str(caught.value)
    with files.locked(path, timeout=0):
        pass


def holding(path: str) -> "subprocess.Popen[bytes]":
    """A process that holds the lock until it is killed."""
    code = f"import sys; sys.path.insert(0, {SRC!r})\nfrom treadle.io.files import locked\n"
    code += f"with locked({path!r}, timeout=None):\n print('held', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    return process


def end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


if os.path.exists("/proc/locks"):  # else the holder of a lock is unknown

    def test_a_lock_that_goes_round_is_waited_for_longer_than_one_that_stays(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = str(tmp_path / "lock")
        holders = [holding(path)]
        now = 0.0

        def sleep(seconds: float) -> None:
            nonlocal now
            now += 6.0
            if now == 6.0:
                end(holders.pop())
                holders.append(holding(path))
            elif now == 18.0:
                end(holders.pop())

        monkeypatch.setattr(files_module, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
        with files.locked(path, timeout=10):
            assert now >= 18.0
        holders.append(holding(path))
        with pytest.raises(Busy, match="gave up after 10 s"), files.locked(path, timeout=10):
            pass
        end(holders.pop())


def test_a_lock_held_by_a_killed_process_is_free(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    process = holding(path)
    with pytest.raises(Busy), files.locked(path, timeout=0.01):
        pass
    end(process)
    with files.locked(path, timeout=60):
        pass


def test_a_lock_where_none_can_be_made_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot lock"), files.locked(str(tmp_path / "absent" / "lock")):
        pass


def test_in_an_open_directory_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a").symlink_to(outside)
    directory = os.open(inside, os.O_RDONLY | os.O_DIRECTORY)
    inside.rename(tmp_path / "moved")
    try:
        files.write_atomic("a", b"ours", dir_fd=directory)
    finally:
        os.close(directory)
    assert outside.read_text() == "theirs"
    assert (tmp_path / "moved" / "a").read_text() == "ours" and os.listdir(tmp_path / "moved") == ["a"]


# Locks shared with programs that lock by mkdir...
def test_our_own_dead_holder_is_taken_over_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, directory = str(tmp_path / "lock"), str(tmp_path / "lock.d")
    child = os.fork()
    if child == 0:
        files.locked_beside(lock, directory).__enter__()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert os.path.isdir(directory)
    touched: list[str] = []
    usual = os.utime
    monkeypatch.setattr(os, "utime", lambda path: (touched.append(path), usual(path)))
    with files.locked_beside(lock, directory, timeout=60) as one:
        mark = one._mark()
        assert Path(lock).read_bytes() == mark, "whose it is, should we be killed"
    assert not os.path.exists(directory) and touched == [directory], "others must not take it for an old one"


def test_another_programs_directory_is_waited_for_and_broken_only_when_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, directory = tmp_path / "lock", tmp_path / "lock.d"
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        directory.rmdir()

    monkeypatch.setattr(files_module, "time", SimpleNamespace(monotonic=time.monotonic, time=time.time, sleep=sleep))
    directory.mkdir()
    with files.locked_beside(str(lock), str(directory)):
        assert len(slept) == 1
    lock.write_bytes(b"another's")
    for age, making, stale, broken in (
        (3, False, 5, False),
        (9, False, 5, True),
        (3, True, 1, True),
        (1, True, 5, False),
    ):
        directory.mkdir(exist_ok=True)
        os.utime(directory, (time.time() - age, time.time() - age))
        content = files.locked_beside._MAKING if making else b"another's".ljust(64)
        lock.write_bytes(content)
        held = files.locked_beside(str(lock), str(directory), timeout=0.0, stale=stale)
        if broken:
            with held:
                assert lock.read_bytes() == held._mark()
        else:
            with pytest.raises(Busy, match="gave up after 0 s.*expires after 5 s"):
                held.__enter__()
            assert lock.read_bytes() == content, "as it was found"
    directory.rmdir()
    with files.locked_beside(str(lock), str(directory)):
        directory.rmdir()  # another program has broken it


def test_a_directory_with_a_used_number_is_not_taken_for_our_own(tmp_path: Path) -> None:
    lock, directory = str(tmp_path / "lock"), tmp_path / "lock.d"
    with files.locked_beside(lock, str(directory)):
        number = directory.stat().st_ino
    for _ in range(50):
        directory.mkdir()  # another program's; file systems often reuse the inode number
        if directory.stat().st_ino == number:
            with pytest.raises(Busy, match="another program"):
                files.locked_beside(lock, str(directory), timeout=0.0).__enter__()
            break
        directory.rmdir()


def test_a_failed_lock_leaves_the_lock_file_free(tmp_path: Path) -> None:
    lock, directory = str(tmp_path / "lock"), tmp_path / "lock.d"
    directory.mkdir()
    with pytest.raises(Busy):
        files.locked_beside(lock, str(directory), timeout=0.0).__enter__()
    with files.locked(lock, 0):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        files.locked_beside(lock, str(tmp_path / "file" / "lock.d"), timeout=0.0).__enter__()
    with files.locked(lock, 0):
        pass


def test_asking_whether_it_is_locked_does_not_lock_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    assert not files.is_locked(path) and not os.path.exists(path)
    with files.locked(path):
        assert files.is_locked(path) and files.is_locked(path)
    with files.locked(path, None) as one, open(path, "rb") as other:
        fcntl.flock(one.fd, fcntl.LOCK_SH)
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert not files.is_locked(path), "another one asks, too"
    assert not files.is_locked(path)
    with pytest.raises(StorageError):
        files.is_locked(str(tmp_path / ("x" * 300)))


def test_reading_stops_at_the_limit_and_refuses_what_could_block(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    os.mkfifo(tmp_path / "pipe")
    assert files.read_at_most(str(tmp_path / "a"), 4) == b"abcd"
    assert files.read_at_most(str(tmp_path / "a"), 100) == b"abcdef"
    assert files.read_at_most(str(tmp_path / "a"), 0) == b""
    (tmp_path / "big").write_bytes(b"x" * ((1 << 20) + 5))
    assert len(files.read_at_most(str(tmp_path / "big"), (1 << 20) + 3)) == (1 << 20) + 3
    (tmp_path / "link").symlink_to("a")
    assert files.read_at_most(str(tmp_path / "link"), 4) == b"abcd"
    with pytest.raises(OSError):
        files.read_at_most(str(tmp_path / "link"), 4, follow=False)
    for other in ("pipe", ".", "none"):
        with pytest.raises(OSError):
            files.read_at_most(str(tmp_path / other), 4)


def test_what_a_killed_writer_left_is_removed_by_the_next_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    left, held, fresh, after = (tmp_path / f".treadle-{digit * 16}.tmp" for digit in "abcd")
    for file in (left, held, fresh, after):
        file.write_bytes(b"half")
    for file in (left, held, after):  # in whatever order they are listed, one comes after the one that is held
        os.utime(file, (1, 1))
    pipe = tmp_path / f".treadle-{'e' * 16}.tmp"
    os.mkfifo(pipe)
    os.utime(pipe, (1, 1))
    with open(held, "rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        files.write_atomic(str(tmp_path / "a"), b"whole")
    assert sorted(os.listdir(tmp_path)) == [held.name, fresh.name, pipe.name, "a"]
    files.write_atomic(str(tmp_path / "a"), b"whole")
    assert len(os.listdir(tmp_path)) == 4, "a directory is looked at once"


def test_a_part_is_given_with_the_length_of_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert files.part(str(path), 3, 4) == (b"3456", 10)
    assert files.part(str(path), 8, 4) == (b"89", 10)
    assert files.part(str(path), 50, 4) == (b"", 10)


def test_a_new_file_takes_no_name_that_is_taken_and_appears_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "new")
    with files.create_new(path) as file:
        file.write(b"one")
    with files.create_new(str(tmp_path / "shared"), 0o644):
        pass
    assert [os.stat(tmp_path / name).st_mode & 0o777 for name in ("new", "shared")] == [0o600, 0o644]
    os.symlink("nowhere", tmp_path / "link")
    files.place_new(str(tmp_path / "placed"), b"words")
    for name in ("new", "link", "placed"):
        with pytest.raises(FileExistsError):
            files.create_new(str(tmp_path / name))
        with pytest.raises(FileExistsError):
            files.place_new(str(tmp_path / name), b"other")
    assert (tmp_path / "placed").read_bytes() == b"words" and (tmp_path / "placed").stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["link", "new", "placed", "shared"], "nothing is left beside"


def test_where_there_are_no_hard_links_a_file_is_placed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(old: str, new: str) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    files.place_new(str(tmp_path / "placed"), b"words")
    with pytest.raises(FileExistsError):
        files.place_new(str(tmp_path / "placed"), b"other")
    assert (tmp_path / "placed").read_bytes() == b"words" and os.listdir(tmp_path) == ["placed"]
    assert (tmp_path / "placed").stat().st_mode & 0o777 == 0o600


def test_a_file_is_read_whole_and_hashed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xff\n" * 100_000)
    path = str(tmp_path / "f")
    assert read(path) == read_if_there(path) == b"\xff\n" * 100_000
    assert sha256(path) == hashlib.sha256(b"\xff\n" * 100_000).hexdigest()


def test_one_that_is_not_there_is_an_error_unless_that_was_to_be_expected(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    assert read_if_there(path) is None and state_numbers(path, ".json") == {}
    with pytest.raises(StorageError, match="cannot read"):
        read_if_there(str(tmp_path))
    with pytest.raises(StorageError, match=f"cannot read {path}"):
        read(path)
    with pytest.raises(FileNotFoundError):
        sha256(path)


def test_a_file_is_followed_to_its_last_line_also_when_it_is_removed(tmp_path: Path) -> None:
    place = tmp_path / "log"
    whole = [b"", b"one\ntw", b"one\ntw", b"one\ntwo\n"]

    def look() -> bool:
        if whole:
            if data := whole.pop(0):
                with place.open("r+b" if place.exists() else "wb") as file:
                    file.write(data)
            return True
        place.unlink(missing_ok=True)
        return False

    assert list(follow_lines(str(place), look, 0.0)) == [b"one", b"two"]


def test_the_number_of_a_file_changes_with_it_and_with_no_other(tmp_path: Path) -> None:
    for name in ("a.json", "b.json", "c.txt"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nothing")
    first = state_numbers(str(tmp_path), ".json")
    assert first.keys() == {"a.json", "b.json"}
    assert first["a.json"] == state_number(str(tmp_path / "a.json"))
    (tmp_path / "a.json").write_text("{ }")
    os.utime(tmp_path / "a.json", (0, 0))
    second = state_numbers(str(tmp_path), ".json")
    assert second["a.json"] != first["a.json"] and second["b.json"] == first["b.json"]


def test_a_file_whose_old_time_was_put_back_is_another_state(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("one")
    os.utime(path, ns=(10**18, 10**18))
    before = state_number(str(path))
    changed = os.stat(path).st_ctime_ns
    while os.stat(path).st_ctime_ns == changed:  # the clock of file systems is coarse
        path.write_text("two")
        os.utime(path, ns=(10**18, 10**18))
    assert state_number(str(path)) != before


def test_of_a_long_file_both_ends_are_read_and_no_byte_twice(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for size, expected in ((3, b"abc"), (4, b"abcd"), (5, b"abcd\ne"), (8, b"abcd\nefgh"), (9, b"abcd\nfghi")):
        path.write_bytes(b"abcdefghi"[:size])
        assert read_ends(str(path), 4) == expected
    with pytest.raises(StorageError, match=f"cannot read {tmp_path}/none"):
        read_ends(str(tmp_path / "none"), 4)


def test_text_is_read_whatever_its_bytes_are(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"caf\xc3\xa9 \xff")
    assert text_if_there(str(tmp_path / "f")) == "caf\u00e9 \ufffd" and text_if_there(str(tmp_path / "none")) is None


def test_a_file_that_comes_later_is_waited_for_and_a_last_half_line_is_none(tmp_path: Path) -> None:
    place, looks = tmp_path / "log", []

    def look() -> bool:
        looks.append(1)
        if len(looks) == 3:
            place.write_bytes(b"one\n\nhalf")
        return len(looks) < 6

    assert list(follow_lines(str(place), look, 0.0)) == [b"one", b""] and len(looks) >= 6
