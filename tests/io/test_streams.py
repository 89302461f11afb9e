"""Streams of bytes: standard input and output, pipes, and Unix sockets for this user alone."""

import asyncio
import os
import pty
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.descriptors import opened
from tests.io.process.trees import SOURCES
from tests.streams import pair
from treadle.errors import ConfigError, Denied, NotFound, PeerClosed, PeerStalled, StorageError
from treadle.io import sockets
from treadle.io.process.lifetime import forget
from treadle.io.streams import FdStream, Printing, Stream, prompt

Ends = tuple[Stream, Stream]


async def memory(tmp_path: Path) -> Ends:
    return pair()


async def unix(tmp_path: Path) -> Ends:
    client, server = (one.detach() for one in socket.socketpair())
    return FdStream(client, client), FdStream(server, server)


async def pipes(tmp_path: Path) -> Ends:
    (there_read, there_write), (back_read, back_write) = os.pipe(), os.pipe()
    return FdStream(back_read, there_write), FdStream(there_read, back_write)


async def shared(tmp_path: Path) -> Ends:
    (there_read, there_write), (back_read, back_write) = os.pipe(), os.pipe()
    return FdStream(back_read, there_write, shared=True), FdStream(there_read, back_write, shared=True)


@pytest.fixture(params=[memory, unix, pipes, shared], ids=lambda make: make.__name__)
async def ends(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ends]:
    make: Callable[[Path], Awaitable[Ends]] = request.param
    left, right = await make(tmp_path)
    yield left, right
    left.close()
    right.close()


async def read_all(stream: Stream) -> bytes:
    data = bytearray()
    while chunk := await stream.read():
        assert len(chunk) <= 64 * 1024
        data += chunk
    return bytes(data)


async def test_what_is_written_at_one_end_is_read_at_the_other(ends: Ends) -> None:
    left, right = ends
    await left.write(b"there")
    await right.write(b"back")
    assert (await right.read(), await left.read()) == (b"there", b"back")


@pytest.mark.parametrize("steps", range(4))
async def test_a_read_that_is_cancelled_takes_nothing_with_it(ends: Ends, steps: int) -> None:
    left, right = ends
    await left.write(b"there")
    reading = asyncio.create_task(right.read())
    for _ in range(steps):
        await asyncio.sleep(0)
    reading.cancel()
    (got,) = await asyncio.gather(reading, return_exceptions=True)
    assert (got if isinstance(got, bytes) else await asyncio.wait_for(right.read(), 60)) == b"there"


async def test_a_lot_arrives_whole_and_in_order(ends: Ends) -> None:
    left, right = ends
    data = os.urandom(3_000_000)

    async def write() -> None:
        await left.write(data)
        left.close_write()

    _, got = await asyncio.gather(write(), read_all(right))
    assert got == data


async def test_a_writer_waits_for_a_reader_that_does_not_read(ends: Ends) -> None:
    left, right = ends
    writing = asyncio.create_task(left.write(bytes(5_000_000)))
    done, _ = await asyncio.wait([writing], timeout=0.05)
    assert not done
    got = 0
    while got < 5_000_000:
        got += len(await right.read())
    await writing


async def test_two_writers_do_not_mix(ends: Ends) -> None:
    left, right = ends

    async def write() -> None:
        await asyncio.gather(left.write(b"a" * 500_000), left.write(b"b" * 500_000))
        left.close_write()

    _, got = await asyncio.gather(write(), read_all(right))
    assert got in (b"a" * 500_000 + b"b" * 500_000, b"b" * 500_000 + b"a" * 500_000)


async def test_no_more_writing_is_the_end_for_the_reader_and_the_other_way_stays_open(ends: Ends) -> None:
    left, right = ends
    await left.write(b"last")
    left.close_write()
    assert await read_all(right) == b"last"
    await right.write(b"answer")
    assert await left.read() == b"answer"
    with pytest.raises(PeerClosed):
        await left.write(b"more")


async def test_writing_to_an_end_that_is_closed_says_so(ends: Ends) -> None:
    left, right = ends
    right.close()
    with pytest.raises(PeerClosed):
        await left.write(bytes(1_000_000))
    assert await left.read() == b""


async def test_a_writer_that_waits_learns_that_the_reader_went_away(ends: Ends) -> None:
    left, right = ends
    writing = asyncio.create_task(left.write(bytes(5_000_000)))
    await asyncio.wait([writing], timeout=0.02)
    right.close()
    with pytest.raises(PeerClosed):
        await writing


async def test_who_writes_nothing_learns_that_the_reader_went_away(ends: Ends) -> None:
    left, right = ends
    watching = asyncio.create_task(left.abandoned())
    await right.write(b"still here")
    assert await left.read() == b"still here"
    right.close_write()
    assert await left.read() == b""
    assert not watching.done(), "it asks nothing more, but it still reads"
    right.close()
    await asyncio.wait_for(watching, 60)


async def test_our_own_close_ends_the_watch_for_the_reader(ends: Ends) -> None:
    left, _ = ends
    watching = asyncio.create_task(left.abandoned())
    await asyncio.sleep(0)
    left.close()
    await asyncio.wait_for(watching, 60)


async def test_nobody_can_tell_whether_a_file_is_read(tmp_path: Path) -> None:
    stream = FdStream(-1, os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT))
    watching = asyncio.create_task(stream.abandoned())
    await stream.write(b"kept")
    assert not watching.done()
    watching.cancel()
    stream.close()


async def test_closing_wakes_our_own_reader(ends: Ends) -> None:
    left, _ = ends
    reading = asyncio.create_task(left.read())
    await asyncio.sleep(0)
    left.close()
    assert await asyncio.wait_for(reading, 60) == b""


async def test_closing_twice_is_harmless_to_what_got_its_numbers_since(ends: Ends) -> None:
    left, _ = ends
    left.close()
    pipes = [end for _ in range(5) for end in os.pipe()]
    left.close()
    left.close_write()
    assert await left.read() == b""
    for end in pipes:
        os.close(end)  # fails when it was closed before


async def test_a_source_that_never_runs_dry_lets_others_have_their_turn() -> None:
    stream = FdStream(os.open("/dev/zero", os.O_RDONLY), -1)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for _ in range(100):
        assert await stream.read()
    task.cancel()
    stream.close()
    assert turns >= 50


async def test_a_terminal_whose_other_side_is_closed_has_ended() -> None:
    ours, theirs = pty.openpty()
    stream = FdStream(ours, -1)
    os.write(theirs, b"x")
    assert await stream.read() == b"x"
    os.close(theirs)
    assert await stream.read() == b""
    stream.close()


# Our own standard streams...
ECHO = """
import asyncio, os, sys
from treadle.io.streams import take_stdio
async def main():
    stream = take_stdio()
    print("stray", flush=True)
    assert os.read(0, 1) == b""
    while data := await stream.read():
        await stream.write(data.upper())
asyncio.run(main())
"""

ECHO_ARGV = [sys.executable, "-c", ECHO]

ECHO_ENV = {**os.environ, "PYTHONPATH": SOURCES}


def test_own_stdio_works_over_pipes_and_stray_prints_go_to_stderr() -> None:
    data = b"abc\n" * 200_000
    result = subprocess.run(ECHO_ARGV, input=data, capture_output=True, env=ECHO_ENV, timeout=60)
    assert (result.stdout == data.upper(), result.stderr, result.returncode) == (True, b"stray\n", 0)


def test_own_stdio_works_over_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"abc" * 100_000)
    with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as target:
        subprocess.run(ECHO_ARGV, stdin=source, stdout=target, stderr=subprocess.PIPE, env=ECHO_ENV, check=True)
    assert (tmp_path / "out").read_bytes() == b"ABC" * 100_000


def test_own_stdio_works_over_a_socket_and_leaves_it_blocking() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(ECHO_ARGV, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=ECHO_ENV)
        ours.sendall(b"abc")
        assert ours.recv(10) == b"ABC"
        assert os.get_blocking(theirs.fileno())
        ours.shutdown(socket.SHUT_WR)
        assert process.communicate(timeout=60) == (None, b"stray\n")


def test_own_stdio_works_on_a_terminal_and_leaves_it_blocking() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(ECHO_ARGV, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=ECHO_ENV)
    os.write(ours, b"abc\n")
    said = b""
    while b"ABC" not in said:
        said += os.read(ours, 100)
    assert os.get_blocking(theirs)
    os.write(ours, b"\x04")
    assert process.communicate(timeout=60) == (None, b"stray\n")
    os.close(ours)
    os.close(theirs)


async def test_a_closed_stream_lets_go_of_nothing_that_got_its_number_since() -> None:
    fd, write = os.pipe()
    stream = FdStream(fd, -1)
    reading = asyncio.create_task(stream.read())
    for _ in range(3):
        await asyncio.sleep(0)  # until it waits
    stream.close()
    os.close(write)
    again, write = os.pipe()
    assert again == fd, "the lowest free number"
    told = asyncio.Event()
    asyncio.get_running_loop().add_reader(again, told.set)
    assert await reading == b""
    os.write(write, b"x")
    await asyncio.wait_for(told.wait(), 60)
    asyncio.get_running_loop().remove_reader(again)
    os.close(again)
    os.close(write)


async def test_printing_keeps_its_place_among_what_is_printed_otherwise(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    print("before")
    await Printing("stdout").write(b"\xffdata\n")
    print("after", flush=True)
    assert capfdbinary.readouterr().out == b"before\n\xffdata\nafter\n"


@pytest.mark.parametrize(("name", "error"), [("", PeerClosed), ("/dev/full", StorageError)])
async def test_printing_where_nobody_reads_or_nothing_fits_is_an_error_of_ours(
    name: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdout = open(name, "w") if name else None
    monkeypatch.setattr("sys.stdout", stdout)
    with pytest.raises(error):
        await Printing("stdout").write(b"data")
    if stdout is not None:
        with pytest.raises(OSError):
            stdout.close()


def test_output_can_go_to_a_file_that_no_one_else_can_read(tmp_path: Path) -> None:
    code = ECHO.replace("take_stdio()", f"take_stdio({str(tmp_path / 'out')!r})")
    (tmp_path / "out").write_text("what was there before, and longer")
    (tmp_path / "out").unlink()
    done = subprocess.run([sys.executable, "-c", code], input=b"abc", capture_output=True, env=ECHO_ENV, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"stray\n", 0)
    assert (tmp_path / "out").read_bytes() == b"ABC" and (tmp_path / "out").stat().st_mode & 0o777 == 0o600
    (tmp_path / "out").write_text("what was there before, and longer")
    subprocess.run([sys.executable, "-c", code], input=b"abc", capture_output=True, env=ECHO_ENV, check=True)
    assert (tmp_path / "out").read_bytes() == b"ABC"


notes: list[str] = []


@pytest.fixture
def piped() -> Iterator[Callable[[bytes | None], int]]:
    """A pipe with these bytes that has ended, or an open and silent one."""
    opened: list[int] = []

    def make(data: bytes | None) -> int:
        read, write = os.pipe()
        opened.append(read)
        if data is None:
            opened.append(write)
        else:
            os.write(write, data)
            os.close(write)
        return read

    notes.clear()
    yield make
    for fd in opened:
        os.close(fd)


Piped = Callable[[bytes | None], int]


@pytest.mark.parametrize(
    ("given", "data", "whole"),
    [
        ("hi", b"", "hi"),
        ("sum up", b"a\nb", "sum up\n\na\nb"),
        (None, b"from a pipe", "from a pipe"),
    ],
)
def test_what_is_piped_stands_below_what_was_given(piped: Piped, given: str | None, data: bytes, whole: str) -> None:
    assert prompt(given, note=notes.append, fd=piped(data)) == whole
    assert prompt("hi", note=notes.append, fd=987) == "hi", "a closed stdin is none"


def test_bytes_that_are_no_text_do_not_stop_it(piped: Piped) -> None:
    assert prompt(None, note=notes.append, fd=piped(b"\xff\xfe ok")).endswith(" ok")


def test_a_silent_pipe_is_left_alone_and_that_is_said(piped: Piped) -> None:
    assert prompt("hi", note=notes.append, fd=piped(None), patience=0.01) == "hi"
    assert "silent" in notes[0]


@pytest.mark.parametrize("given", [None, "", "  \n"])
def test_no_prompt_at_all_says_how_to_give_one(given: str | None, piped: Piped) -> None:
    with pytest.raises(ConfigError, match="treadle -p"):
        prompt(given, note=notes.append, fd=piped(b" "))


def test_a_terminal_is_not_read_and_its_end_is_no_input(piped: Piped) -> None:
    master, slave = os.openpty()
    try:
        assert prompt("hi", note=notes.append, fd=slave) == "hi" and notes == []
        with pytest.raises(ConfigError, match="there is no prompt") as error:
            prompt(None, note=notes.append, fd=slave)
        assert error.value.hint == 'give one: treadle -p "...", or pipe it in'
    finally:
        os.close(master)
        os.close(slave)
    with pytest.raises(ConfigError, match="the prompt is empty") as empty:
        prompt("", note=notes.append, fd=piped(b""))
    assert empty.value.hint == 'give one: treadle -p "..."'
    with pytest.raises(ConfigError, match="the prompt is empty"):
        prompt(None, note=notes.append, fd=987)


def test_a_file_is_added_whole_to_what_was_given_and_nothing_is_noted(tmp_path: Path) -> None:
    notes.clear()
    (tmp_path / "f").write_bytes(b"x" * 3_000_000)
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    assert prompt("sum up", note=notes.append, fd=fd, patience=0.0) == "sum up\n\n" + "x" * 3_000_000 and notes == []
    os.close(fd)


SCRIPT = """
import os, sys
from treadle.io.process.lifetime import fill_gaps
fill_gaps()
opened = os.open("/dev/zero", os.O_RDONLY)
assert opened > 2, opened
assert os.read(0, 1) == b"", "stdin should have ended"
print("lost", file=sys.stderr)
try:
    os.write(1, b"heard")
except OSError:
    os.write(2, b"stdout cannot be written")
"""


@pytest.mark.parametrize(
    ("closed", "out", "err"),
    [
        ("<&-", b"heard", b"lost\n"),
        (">&-", b"", b"lost\nstdout cannot be written"),
        ("2>&-", b"heard", b""),
        ("<&- >&- 2>&-", b"", b""),
    ],
)
def test_no_file_takes_the_place_of_a_stream_that_is_missing(closed: str, out: bytes, err: bytes) -> None:
    given = "" if "<" in closed else "</dev/null"
    done = subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" {given} {closed}', sys.executable, SCRIPT], capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, out, err)


def test_a_pipe_that_nobody_reads_does_not_hold_up_whoever_writes_to_stderr() -> None:
    code = (
        "from treadle.io.process.lifetime import never_wait_for_stderr\n"
        "import sys\n"
        "never_wait_for_stderr()\n"
        "for _ in range(10_000): print('a warning ' * 20, file=sys.stderr, flush=True)\n"
        "print('done')"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.read() == b"done\n"
        assert child.stderr.read().startswith(b"a warning ")


def test_what_is_connected_to_nothing_is_lost_and_at_its_end(tmp_path: Path) -> None:
    read, write = os.pipe()
    (tmp_path / "file").write_bytes(b"content")
    file = os.open(tmp_path / "file", os.O_RDONLY)
    before = {number for number, _ in opened()}
    forget(write, file)
    assert os.write(write, b"lost") == 4 and os.read(file, 10) == b"" and os.read(read, 1) == b""
    assert {number for number, _ in opened()} == before
    for fd in (read, write, file):
        os.close(fd)


@pytest.mark.parametrize("owned", [True, False])
def test_a_listening_socket_is_private_and_replaces_a_dead_one(tmp_path: Path, owned: bool) -> None:
    path = str(tmp_path / "s")
    sockets.listen(path, owned=owned).close()
    listener = sockets.listen(path, owned=owned)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    client = sockets.connect(path, timeout=60)
    assert client.gettimeout() == 60
    accepted, _ = listener.accept()
    assert sockets.same_user(accepted) and sockets.peer_uid(accepted) == os.geteuid()
    client.send(b"x")
    assert accepted.recv(1) == b"x"
    for sock in (client, accepted, listener):
        sock.close()


def test_one_that_is_served_is_not_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with sockets.listen(path):
        with pytest.raises(StorageError, match="already served"):
            sockets.listen(path)
        sockets.connect(path).close()


def test_a_crowd_can_knock_before_anybody_opens(tmp_path: Path) -> None:
    listener = sockets.listen(str(tmp_path / "s"))
    allowed = int(Path("/proc/sys/net/core/somaxconn").read_text())
    crowd = [sockets.connect(str(tmp_path / "s"), timeout=60) for _ in range(min(300, allowed))]
    for sock in (*crowd, listener):
        sock.close()


def test_one_that_does_not_open_is_not_waited_for_longer_than_allowed(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with sockets.listen(path, backlog=0), sockets.connect(path), pytest.raises(PeerStalled, match="does not accept"):
        sockets.connect(path, timeout=0.05)


def test_nobody_listening_is_not_found_and_a_place_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing listens"):
        sockets.connect(str(tmp_path / "s"))
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "s"))
    dead.close()
    with pytest.raises(NotFound, match="nothing listens"):
        sockets.connect(str(tmp_path / "s"))
    for owned in (True, False):
        with pytest.raises(StorageError, match="listen at|lock"):
            sockets.listen(str(tmp_path / "no" / "s"), owned=owned)


def test_who_finds_the_file_can_connect(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{number}.sock") for number in range(200)]
    listeners = []

    def make() -> None:
        listeners.extend(sockets.listen(path, owned=True) for path in paths)

    maker = threading.Thread(target=make)
    maker.start()
    for path in paths:
        while not os.path.exists(path):
            assert maker.is_alive() or os.path.exists(path)
        sockets.connect(path).close()
    maker.join()
    for listener in listeners:
        listener.close()
    assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, paths))


def test_why_no_one_could_be_reached_is_told() -> None:
    for error, kind, says in (
        (FileNotFoundError(2, "not there"), NotFound, "nothing listens at /s: not there"),
        (NotADirectoryError(20, "no directory"), NotFound, "nothing listens at /s: no directory"),
        (ConnectionRefusedError(111, "refused"), NotFound, "nothing listens at /s: refused"),
        (PermissionError(13, "no"), Denied, "/s belongs to another user"),
        (TimeoutError(110, "late"), PeerStalled, "the process that serves /s does not accept connections"),
        (BlockingIOError(11, "full"), PeerStalled, "the process that serves /s does not accept connections"),
        (OSError(71, "odd"), StorageError, "cannot connect to /s: odd"),
    ):
        found = sockets.no_connection("/s", error)
        assert type(found) is kind and found.message == says


def test_whether_the_other_end_has_left_is_seen_without_taking_anything() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    assert not sockets.has_left(ours)
    theirs.send(b"last")
    theirs.close()
    assert not sockets.has_left(ours) and ours.recv(10) == b"last" and sockets.has_left(ours)
    ours.close()
    assert sockets.has_left(ours), "what is closed leads to no one"
