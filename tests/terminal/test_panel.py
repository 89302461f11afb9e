"""What is shown to a person cannot act on their terminal, and keys are known by their names."""

import os
import signal
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal.panel import fitted, harmless, keys_in, width


@given(st.text(), st.integers(0, 30))
def test_a_text_fills_its_columns_and_has_nothing_that_acts(text: str, cols: int) -> None:
    shown = fitted(text, cols)
    assert width(shown) == cols and (shown.isprintable() or not shown)
    assert width(harmless(text)) == width(text)


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        (b"ab", ["a", "b"]),
        (b"\r\x7f\t", ["enter", "backspace", "tab"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1b[Z", ["back tab"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[99~x", ["x"]),
        ("ä".encode(), ["ä"]),
    ],
)
def test_keys_are_known_by_name_and_what_is_no_key_is_left_out(typed: bytes, keys: list[str]) -> None:
    assert keys_in(typed) == keys


SHOWN = """
import os, sys
from treadle.terminal.panel import Panel
panel = Panel(int(sys.argv[1]))
for _ in range(3):
    os.write(1, f"<ask {panel.ask('name?', 'x')!r}>".encode())
for _ in range(3):
    os.write(1, f"<choose {panel.choose(['one', 'two'], 'foot')!r}>".encode())
os.write(1, f"<gone {panel.gone}>".encode())
"""


class Person:
    """Types at a terminal on which a process of its own shows a panel."""

    def __init__(self) -> None:
        theirs, self._signals = os.pipe()
        self._terminal, inner = os.openpty()
        tty.setraw(inner)
        termios.tcsetwinsize(inner, (10, 40))
        argv = [sys.executable, "-c", SHOWN, str(theirs)]
        self._process = subprocess.Popen(argv, stdin=inner, stdout=inner, pass_fds=[theirs])
        os.close(inner)
        os.close(theirs)
        self._seen = b""

    def types(self, keys: bytes, result: str) -> None:
        """These keys, and this comes of it."""
        os.write(self._terminal, keys)
        self.sees(result)

    def sees(self, words: str) -> None:
        while words.encode() not in self._seen:
            self._seen += os.read(self._terminal, 4096)
        self._seen = self._seen.partition(words.encode())[2]

    def signals(self, number: int) -> None:
        os.write(self._signals, bytes([number]))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)
        os.close(self._signals)


@pytest.fixture
def person() -> Iterator[Person]:
    made = Person()
    yield made
    made.close()


def test_a_person_types_a_line_chooses_one_and_leaves(person: Person) -> None:
    person.sees("name? x")
    person.types(b"yz\x7f\x1b[5~\r", "<ask 'xy'>")
    person.types(b"\x15new\r", "<ask 'new'>")
    person.types(b"\x03", "<ask None>")
    person.types(b"jjj\r", "<choose 1>")
    person.types(b"k\x1b[B\x1b[A92", "<choose 1>")
    person.sees("one")
    person.signals(signal.SIGWINCH)
    person.sees("one")
    person.signals(signal.SIGTERM)
    person.sees("<choose None>")
    person.sees("<gone True>")
