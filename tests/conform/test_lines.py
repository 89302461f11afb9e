"""A program's lines, read without trust."""

import sys

import pytest

from treadle.conform.lines import LinePeer, shown
from treadle.errors import RemoteProtocolError

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


async def test_what_is_said_comes_back_line_by_line() -> None:
    async with LinePeer.start((sys.executable, "-c", ECHO), {}, "/", 60) as program:
        await program.say({"n": 1}, b'{"n":\n'.replace(b"\n", b"2}\n"))
        assert [await program.hear(), await program.hear()] == [{"n": 1}, {"n": 2}] == program.lines
        program.close_input()
        assert await program.end() == 0


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("print('hello')", "no JSON"),
        ("print('[1]')", "no JSON object"),
        ('import sys; sys.stdout.buffer.write(b\'{"a":"\\xff"}\\n\')', "no JSON"),
        ("print('{}', end='')", "does not end"),
        ("import sys; sys.exit('no key here')", "exit code 1, its last words: no key here"),
    ],
)
async def test_anything_but_whole_json_objects_is_an_error_that_shows_it(code: str, why: str) -> None:
    async with LinePeer.start((sys.executable, "-c", code), {}, "/", 60) as program:
        with pytest.raises(RemoteProtocolError, match=why):
            await program.hear()


async def test_a_silent_program_is_an_error_after_its_time() -> None:
    async with LinePeer.start((sys.executable, "-c", ECHO), {}, "/", 0.1) as program:
        with pytest.raises(RemoteProtocolError, match="no line came within 0.1 s .waiting for a wave"):
            await program.hear("a wave")
        with pytest.raises(RemoteProtocolError, match="still runs"):
            await program.end()
        assert await program.quiet(0.01) is None


async def test_a_whole_run_is_its_code_and_what_it_wrote() -> None:
    code = "import sys; print('out'); sys.exit('why')"
    async with LinePeer.start((sys.executable, "-c", code), {}, "/", 60) as program:
        assert await program.whole() == (1, "out\n", "why\n")


def test_long_lines_are_cut_in_reports() -> None:
    assert shown({"a": "é"}) == '{"a": "é"}'
    assert shown(b"x" * 1000) == "x" * 300 + "..." and shown(b"x" * 300) == "x" * 300


async def test_a_program_that_never_stops_writing_is_stopped_before_it_fills_the_memory() -> None:
    code = "while True: print('y' * 65536, end='')"
    for heard in (LinePeer.hear, LinePeer.whole):
        async with LinePeer.start((sys.executable, "-c", code), {}, "/", 60) as program:
            with pytest.raises(RemoteProtocolError, match="more than"):
                await heard(program)
