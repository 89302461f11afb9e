"""A child process from asyncio: its streams, its end, what it answers, and that nothing of it is left."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.descriptors import opened
from tests.io.process.hostile import SELF, left
from tests.waiting import until
from treadle.errors import NotFound
from treadle.io.process import table, tree
from treadle.io.process.child import OUTPUT_CAP, Child, Consulted, Tail, consult, start


@pytest.fixture(autouse=True)
def nothing_stays(mark: str) -> Iterator[None]:
    tree.spawn(["true"]).stop()  # the keeper's socket exists before we count
    before = opened()
    yield
    assert opened() - before == set()


async def hostile(*modes: str) -> Child:
    child = await start([sys.executable, "-I", "-S", SELF, *modes])
    assert await child.stdio.read() == b"ready\n"
    return child


async def test_a_child_hears_and_answers() -> None:
    async with await start(["cat"], stdin="pipe") as child:
        await child.stdio.write(b"hello")
        assert await child.stdio.read() == b"hello"
        child.stdio.close_write()
        assert await child.stdio.read() == b""
        assert await child.wait() == 0


async def test_the_last_words_of_a_child_that_floods_its_stderr_are_kept() -> None:
    async with await start(["sh", "-c", "yes filler | head -c 2000000 >&2; echo the reason >&2; exit 3"]) as child:
        assert await child.wait() == 3
        said = await child.last_words()
        assert said.endswith("the reason\n") and len(said) <= 64 * 1024
        assert child.tail.dropped > 1_000_000


async def test_stderr_can_be_a_stream_of_its_own_or_join_stdout() -> None:
    async with await start(["sh", "-c", "echo out; echo err >&2"], stderr="pipe") as child:
        assert (await child.stdio.read(), await child.stderr.read()) == (b"out\n", b"err\n")
    async with await start(["sh", "-c", "echo out; echo err >&2"], stderr="stdout") as child:
        data = b""
        while chunk := await child.stdio.read():
            data += chunk
        assert data == b"out\nerr\n"


async def test_who_no_longer_waits_for_a_start_leaves_nothing_running(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    starting = asyncio.create_task(start(["sh", "-c", 'echo $$ > "$0"; exec sleep 1000', str(tmp_path / "pid")]))
    await asyncio.sleep(0)
    pid = int((tmp_path / "pid").read_text())  # it runs, and the event loop had no chance to notice
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_what_cannot_be_started_says_why_and_leaves_no_descriptor() -> None:
    with pytest.raises(NotFound, match="on PATH"):
        await start(["no-such-program"], stdin="pipe", stderr="pipe")


async def test_leaving_the_block_ends_a_hostile_tree(mark: str) -> None:
    async with await hostile("daemon", "session", "chain") as child:
        await child.stop(0.05)
        assert left(mark) == []
    assert child.exit_code == -signal.SIGTERM


async def test_cancelling_the_task_ends_the_tree(mark: str) -> None:
    running = asyncio.Event()

    async def work() -> None:
        async with await start(["sleep", "100"]) as child:
            running.set()
            await child.wait()

    task = asyncio.create_task(work())
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(mark) == []


async def test_cancelling_while_it_starts_leaves_nothing() -> None:
    for turns in range(6):
        task = asyncio.create_task(start(["sleep", "100"], stdin="pipe"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(result, Child):
            await result.stop(0)
            result.close()


async def test_closing_without_stopping_ends_the_tree_a_moment_later() -> None:
    child = await hostile("deaf", "daemon")
    child.close()  # every test here checks at its end that nothing is left


async def test_output_written_before_the_stop_can_still_be_read(tmp_path: Path) -> None:
    child = await start(["sh", "-c", "echo one; echo two; : > written; exec sleep 100"], cwd=str(tmp_path))
    await until((tmp_path / "written").exists)
    await child.stop(0)
    data = b""
    while chunk := await child.stdio.read():
        data += chunk
    child.close()
    assert data == b"one\ntwo\n"


async def test_the_keeper_is_let_go_a_while_after_the_last_child_and_the_next_one_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("treadle.io.process.child.REST", 0.01)
    monkeypatch.setattr("treadle.io.process.child.COLLECTING", 0.01)
    async with await start(["true"]):
        keeper = tree.own.pid
    await until(lambda: tree.own.pid == 0)
    assert table.look(keeper) is None, "it is gone and collected"
    async with await start(["cat"], stdin="pipe") as child:
        assert tree.own.pid not in (0, keeper)
        await child.stdio.write(b"hello")
        assert await child.stdio.read() == b"hello"
    await until(tree.rest)


async def test_the_keeper_stays_while_any_tree_is_under_it() -> None:
    async with await start(["cat"], stdin="pipe") as child:
        async with await start(["true"]):
            keeper = tree.own.pid
        assert not tree.rest() and tree.own.pid == keeper
        await child.stdio.write(b"hello")
        assert await child.stdio.read() == b"hello"
    await until(tree.rest)


async def test_thirty_children_at_once_need_no_thread() -> None:
    before = set(threading.enumerate())

    async def one(number: int) -> bytes:
        async with await start(["sh", "-c", f"echo {number}"]) as child:
            said = await child.stdio.read()
            assert set(threading.enumerate()) - before == set()
            await child.wait()
            return said

    assert await asyncio.gather(*map(one, range(30))) == [b"%d\n" % number for number in range(30)]


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 40))
def test_a_tail_keeps_the_last_bytes_and_counts_the_rest(parts: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for part in parts:
        tail.feed(part)
    whole = b"".join(parts)
    assert tail.content == whole[-limit:]
    assert tail.dropped == max(0, len(whole) - limit)


async def test_a_wrapper_gets_the_streams_as_further_descriptors_if_there_are_both() -> None:
    async with await start(["sh", "-c", "cat <&3 >&4; cat"], stdin="pipe", aside=True) as child:
        await child.stdio.write(b"hello")
        child.stdio.close_write()
        assert (await child.stdio.read(), await child.wait()) == (b"hello", 0)
    async with await start(["echo", "x"], aside=True) as child:
        assert await child.stdio.read() == b"x\n"
    async with await start(["cat"], stdin="pipe", stdout=None, stderr=None, aside=True) as child:
        child.stdio.close_write()
        assert await child.wait() == 0 and await child.last_words() == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("cat; echo aside >&2; exit 3", Consulted(exit_code=3, stdout="told\n", stderr="aside\n")),
        ("exec <&-; echo deaf", Consulted(exit_code=0, stdout="deaf\n")),
        ("sleep 1000 & echo left", Consulted(exit_code=0, stdout="left\n")),
        (
            f"printf 'a\\377'; sleep 0.01; head -c {OUTPUT_CAP} /dev/zero | tr '\\0' b",
            Consulted(exit_code=0, stdout="a\ufffd" + "b" * (OUTPUT_CAP - 2)),
        ),
    ],
)
async def test_what_the_program_prints_is_its_answer(tmp_path: Path, command: str, said: Consulted) -> None:
    async with await start(["sh", "-c", command], cwd=str(tmp_path), stdin="pipe", stdout="pipe") as child:
        assert await consult(child, b"told", 60) == said


async def test_one_that_reads_nothing_and_goes_on_is_not_told_to_the_end(tmp_path: Path) -> None:
    async with await start(["sleep", "1000"], cwd=str(tmp_path), stdin="pipe", stdout="pipe") as child:
        answer = await consult(child, b"x" * 1_000_000, 0.05)
        assert answer == Consulted(exit_code=None) and child.tree.processes() == []
