"""What a confined program has done outside: a request is only the input of a program that we chose."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from treadle.io.sandbox.start import MOST, Outside
from treadle.session import RelayGrant

ECHO = 'echo "$PWD $GRANTED $OTHER [$1] $(cat)"'


@asynccontextmanager
async def offered(*argv: str, cwd: Path) -> AsyncIterator[Outside]:
    grant = RelayGrant(place="/inside", argv=("sh", "-c", *argv), cwd=str(cwd), env=(("GRANTED", "yes"),))
    passage = Outside(grant)
    await passage.start()
    async with asyncio.timeout(60):
        yield passage
    passage.close()


async def ask(passage: Outside, words: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(passage.path)
    writer.write(words)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def test_the_program_its_words_directory_and_variables_are_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRANTED", "no")
    monkeypatch.setenv("OTHER", "as here")
    async with offered(ECHO, "sh", "fixed", cwd=tmp_path) as passage:
        answer = await ask(passage, b"GRANTED=no; cd /; --other")
    assert answer.decode() == f"{tmp_path} yes as here [fixed] GRANTED=no; cd /; --other\n"


async def test_a_program_that_cannot_be_started_or_fails_is_no_answer(tmp_path: Path) -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
    async with offered("echo aside >&2; exit 3", cwd=tmp_path) as passage:
        assert await ask(passage, b"") == b""
    async with offered("echo 1", cwd=tmp_path / "gone") as passage:
        assert await ask(passage, b"") == b""
    async with offered("exec <&-; echo deaf", cwd=tmp_path) as passage:
        assert await ask(passage, b"x" * 200_000) == b"deaf\n"
    gc.collect()
    await asyncio.sleep(0)
    assert problems == [], "and nobody else hears of it"


async def test_only_so_many_run_at_once_and_the_rest_wait_their_turn(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    code = "touch here/$$; cat; echo done"
    async with offered(code, cwd=tmp_path) as passage:
        open_ones = [await asyncio.open_unix_connection(passage.path) for _ in range(MOST + 2)]
        while len(list((tmp_path / "here").iterdir())) < MOST:
            await asyncio.sleep(0.01)
        assert len(passage._visits) == MOST + 2 and len(list((tmp_path / "here").iterdir())) == MOST
        for _, writer in open_ones:
            writer.write_eof()
        assert [await reader.read() for reader, _ in open_ones] == [b"done\n"] * (MOST + 2)
        for _, writer in open_ones:
            writer.close()
