"""Lines that a person types: one at a time, none lost that was typed ahead, and the terminal is given back."""

import os
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

from tests.cli.choosing.conftest import typed
from treadle.cli.chat.lines import TypedLines

READING = """
import asyncio, sys
from treadle.cli.chat.lines import TypedLines

async def main():
    lines = TypedLines()
    try:
        print(f"<1 {await lines.line('one? ')!r}>", flush=True)
        print("<pause>", flush=True)
        await asyncio.to_thread(open(sys.argv[1]).read)
        print(f"<2 {await lines.line('two? ')!r}>", flush=True)
        print(f"<3 {await lines.line('three? ', fresh=True)!r}>", flush=True)
        for _ in range(2):
            try:
                await lines.line('four? ')
            except EOFError:
                print("<end>", flush=True)
    finally:
        lines.close()

asyncio.run(main())
"""


class Person:
    def __init__(self, gate: str) -> None:
        self._terminal, inner = os.openpty()
        self.before = termios.tcgetattr(inner)
        self._inner, self._gate = inner, gate
        self.process = subprocess.Popen([sys.executable, "-c", READING, gate], stdin=inner, stdout=inner, stderr=inner)
        self._seen = b""

    def types(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def goes_on(self) -> None:
        with open(self._gate, "w"):
            pass

    def sees(self, words: str) -> None:
        while words.encode() not in self._seen:
            self._seen += os.read(self._terminal, 4096)
        self._seen = self._seen.partition(words.encode())[2]

    def after(self) -> object:
        assert self.process.wait(60) == 0
        return termios.tcgetattr(self._inner)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._inner)
        os.close(self._terminal)


@pytest.fixture
def person(tmp_path: os.PathLike[str]) -> Iterator[Person]:
    gate = os.path.join(tmp_path, "gate")
    os.mkfifo(gate)
    made = Person(gate)
    yield made
    made.close()


def test_what_is_typed_ahead_is_the_next_line_unless_it_is_to_be_fresh(person: Person) -> None:
    person.sees("one? ")
    person.types("first\n")
    person.sees("<1 'first'>")
    person.sees("<pause>")
    person.types("ahead\nalso ahead\nnot yet ent")
    person.sees("not yet ent")
    person.goes_on()
    person.sees("<2 'ahead'>")
    person.sees("three? ")
    person.types("new\n")
    person.sees("<3 'new'>")
    person.sees("four? ")
    person.types("\x04")
    person.sees("<end>")
    person.sees("<end>")
    assert person.after() == person.before


async def test_what_was_typed_before_is_taken_line_by_line_and_the_end_stays_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with typed("one\rtw\xc3\xb6\n\nunfinished"):
        lines = TypedLines()
        assert [await lines.line(f"{number}? ") for number in range(3)] == ["one", "tw\xc3\xb6", ""]
        for _ in range(2):
            with pytest.raises(EOFError):
                await lines.line("end? ")
        lines.close()
    assert capsys.readouterr().out == "0? one\n1? tw\xc3\xb6\n2? \nend? \nend? \n"


async def test_a_fresh_question_is_not_answered_by_what_was_typed_before() -> None:
    with typed("yes\nyes\n"):
        lines = TypedLines()
        assert await lines.line("one? ") == "yes"
        with pytest.raises(EOFError):
            await lines.line("sure? ", fresh=True)
