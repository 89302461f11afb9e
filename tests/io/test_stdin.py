"""The prompt: what was given, what is piped in, and never waiting for a silent stdin."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from treadle.errors import ConfigError
from treadle.io.streams import prompt

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


def test_a_prompt_alone_is_itself(piped: Piped) -> None:
    assert prompt("hi", note=notes.append, fd=piped(b"")) == "hi"


def test_what_is_piped_stands_below_what_was_given(piped: Piped) -> None:
    assert prompt("sum up", note=notes.append, fd=piped(b"a\nb")) == "sum up\n\na\nb"


def test_without_a_prompt_what_is_piped_is_the_prompt(piped: Piped) -> None:
    assert prompt(None, note=notes.append, fd=piped(b"from a pipe")) == "from a pipe"


def test_bytes_that_are_no_text_do_not_stop_it(piped: Piped) -> None:
    assert prompt(None, note=notes.append, fd=piped(b"\xff\xfe ok")).endswith(" ok")


def test_a_silent_pipe_is_left_alone_and_that_is_said(piped: Piped) -> None:
    assert prompt("hi", note=notes.append, fd=piped(None), patience=0.01) == "hi"
    assert "silent" in notes[0]


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 3_000_000)
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    assert len(prompt(None, note=notes.append, fd=fd)) == 3_000_000
    os.close(fd)


def test_a_closed_stdin_is_no_stdin() -> None:
    assert prompt("hi", note=notes.append, fd=987) == "hi"


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


def test_a_file_is_added_to_what_was_given_and_nothing_is_noted(tmp_path: Path) -> None:
    notes.clear()
    (tmp_path / "f").write_bytes(b"from a file")
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    assert prompt("sum up", note=notes.append, fd=fd, patience=0.0) == "sum up\n\nfrom a file" and notes == []
    os.close(fd)
