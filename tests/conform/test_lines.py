"""A program's lines, read without trust."""

import sys
from typing import Any, cast

import pytest

from treadle.conform import lines
from treadle.conform.lines import LinePeer
from treadle.conform.shapes import ShapeWatch
from treadle.errors import RemoteProtocolError

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


async def test_what_is_said_comes_back_line_by_line() -> None:
    async with LinePeer.start((sys.executable, "-c", ECHO), {}, "/", 60, ShapeWatch()) as program:
        await program.say({"n": 1}, b'{"n":\n'.replace(b"\n", b"2}\n"))
        assert [await program.hear(), await program.hear()] == [{"n": 1}, {"n": 2}] == program.lines
        program.close_input()
        assert await program.end() == 0


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("print('hello')", "not JSON"),
        ("print('[1]')", "not a JSON object"),
        ('import sys; sys.stdout.buffer.write(b\'{"a":"\\xff"}\\n\')', "not JSON"),
        ("print('{}', end='')", "no newline"),
        ("import sys; sys.exit('no key here')", "exit code 1, its last words: no key here"),
    ],
)
async def test_anything_but_whole_json_objects_is_an_error_that_shows_it(code: str, why: str) -> None:
    async with LinePeer.start((sys.executable, "-c", code), {}, "/", 60, ShapeWatch()) as program:
        with pytest.raises(RemoteProtocolError, match=why):
            await program.hear()


async def test_a_silent_program_is_an_error_after_its_time() -> None:
    async with LinePeer.start((sys.executable, "-c", ECHO), {}, "/", 0.1, ShapeWatch()) as program:
        with pytest.raises(RemoteProtocolError, match="no line came within 0.1 s .waiting for a wave"):
            await program.hear("a wave")
        with pytest.raises(RemoteProtocolError, match="still runs"):
            await program.end()
        assert await program.quiet(0.01) is None


async def test_a_whole_run_is_its_code_and_what_it_wrote() -> None:
    code = "import sys; print('out'); sys.exit('why')"
    async with LinePeer.start((sys.executable, "-c", code), {}, "/", 60, ShapeWatch()) as program:
        assert await program.whole() == (1, "out\n", "why\n")


class Writing:
    """A program that has written this and then ends."""

    def __init__(self, *pieces: bytes) -> None:
        self.stdio = self
        self._pieces = [*pieces]

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def wait(self) -> int:
        return 0

    async def last_words(self) -> str:
        return ""


def wrote(*pieces: bytes) -> LinePeer:
    return LinePeer(cast(Any, Writing(*pieces)), "/", 60, ShapeWatch())


async def test_a_program_that_never_stops_writing_is_stopped_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "LONGEST", 10)
    assert await wrote(b'{"a"', b":123}", b"\n").hear() == {"a": 123}
    assert await wrote(b"x" * 10).whole() == (0, "x" * 10, "")
    with pytest.raises(RemoteProtocolError, match="a line of more than 10 bytes"):
        await wrote(b'{"a"', b":1234}", b"\n").hear()
    with pytest.raises(RemoteProtocolError, match="it wrote more than 10 bytes: xxxxxxxxxxx"):
        await wrote(b"x" * 10, b"x").whole()


async def test_what_is_waited_for_is_said_when_it_does_not_come_and_what_came_before_is_kept() -> None:
    program = wrote(b'{"n":1}\n{"n":2}\n{"n":3}\n')
    assert await program.until(lambda line: line["n"] == 2, "two") == {"n": 2} and len(program.lines) == 2
    assert await program.quiet(60) == {"n": 3}
    with pytest.raises(RemoteProtocolError, match=r"its output ended \(waiting for four\); exit code 0$"):
        await program.hear("four")
    assert await program.end() == 0 and await wrote(b"{}\n{}\n").end() == 0
