"""Asking a short program."""

import os
import sys

from treadle.io.process.ask import ask


def test_it_gives_what_the_program_prints_without_the_last_newline() -> None:
    assert ask([sys.executable, "-c", "print('one'); print('two')"]) == "one\ntwo"


def test_a_big_answer_is_whole() -> None:
    assert ask([sys.executable, "-c", "print('x' * 1_000_000)"]) == "x" * 1_000_000


def test_a_program_that_fails_or_is_missing_gives_nothing() -> None:
    assert ask([sys.executable, "-c", "print('no'); raise SystemExit(1)"]) is None
    assert ask(["there-is-no-such-program"]) is None


def test_it_leaves_no_descriptor_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    ask([sys.executable, "-c", "pass"])
    ask(["there-is-no-such-program"])
    assert len(os.listdir("/proc/self/fd")) == before
