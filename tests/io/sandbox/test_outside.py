"""What a confined program has done outside: a request is only the input of a program that we chose."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from treadle.io.sandbox.outside import MOST, Outside
from treadle.session import RelayGrant

ECHO = "import os, sys; print(os.getcwd(), os.environ['GRANTED'], sys.argv[1:], sys.stdin.read())"


@asynccontextmanager
async def offered(*argv: str, cwd: Path) -> AsyncIterator[Outside]:
    grant = RelayGrant(place="/inside", argv=(sys.executable, "-c", *argv), cwd=str(cwd), env=(("GRANTED", "yes"),))
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


async def test_the_program_its_words_directory_and_variables_are_ours(tmp_path: Path) -> None:
    async with offered(ECHO, "fixed", cwd=tmp_path) as passage:
        answer = await ask(passage, b"GRANTED=no; cd /; --other")
    assert answer.decode() == f"{tmp_path} yes ['fixed'] GRANTED=no; cd /; --other\n"


async def test_a_program_that_cannot_be_started_or_fails_is_no_answer(tmp_path: Path) -> None:
    async with offered("raise SystemExit(3)", cwd=tmp_path) as passage:
        assert await ask(passage, b"") == b""
    async with offered("print(1)", cwd=tmp_path / "gone") as passage:
        assert await ask(passage, b"") == b""


async def test_only_so_many_run_at_once_and_the_rest_wait_their_turn(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    code = "import os, sys; open(f'here/{os.getpid()}', 'w'); sys.stdin.read(); print('done')"
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
