"""A program that is asked something and answers."""

import asyncio
from pathlib import Path

import pytest

from treadle.io.process.child import OUTPUT_CAP, Consulted, consult, start


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("cat; echo aside >&2; exit 3", Consulted(exit_code=3, stdout="told\n", stderr="aside\n")),
        ("exec <&-; echo deaf", Consulted(exit_code=0, stdout="deaf\n")),
        ("sleep 1000 & echo left", Consulted(exit_code=0, stdout="left\n")),
        ("head -c 100000 /dev/zero | tr '\\0' x", Consulted(exit_code=0, stdout="x" * OUTPUT_CAP)),
    ],
)
async def test_what_the_program_prints_is_its_answer(tmp_path: Path, command: str, said: Consulted) -> None:
    async with await start(["sh", "-c", command], cwd=str(tmp_path), stdin="pipe", stdout="pipe") as child:
        assert await consult(child, b"told", 60) == said


async def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async with await start(["sleep", "1000"], cwd=str(tmp_path), stdin="pipe", stdout="pipe") as child:
        assert (await consult(child, b"", 0.01)).exit_code is None


async def test_one_that_reads_nothing_and_goes_on_is_not_told_to_the_end(tmp_path: Path) -> None:
    async with await start(["sleep", "1000"], cwd=str(tmp_path), stdin="pipe", stdout="pipe") as child:
        answer = await consult(child, b"x" * 1_000_000, 0.05)
        assert answer == Consulted(exit_code=None) and child.tree.processes() == []


async def test_output_that_is_no_text_and_comes_in_pieces_is_read_to_the_limit(tmp_path: Path) -> None:
    command = f"printf 'a\\377'; sleep 0.01; head -c {OUTPUT_CAP} /dev/zero | tr '\\0' b; exit 0"
    async with await start(["sh", "-c", command], cwd=str(tmp_path), stdin="pipe", stdout="pipe") as child:
        answer = await consult(child, b"", 60)
    assert answer == Consulted(exit_code=0, stdout="a\ufffd" + "b" * (OUTPUT_CAP - 2))


async def test_nothing_is_told_any_more_when_the_answer_is_there(tmp_path: Path) -> None:
    words = ["sh", "-c", "exec >&-; exec sleep 1000"]
    async with await start(words, cwd=str(tmp_path), stdin="pipe", stdout="pipe", stderr=None) as child:
        await consult(child, b"x" * 1_000_000, 0.05)
        assert asyncio.all_tasks() == {asyncio.current_task()}
