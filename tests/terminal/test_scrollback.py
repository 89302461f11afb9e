import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal.output import Scrollback

chunks = st.lists(st.binary(min_size=1, max_size=6000), max_size=30)


@given(chunks, st.integers(0, 9000))
def test_what_is_kept_is_the_end_of_all_that_came(parts: list[bytes], limit: int) -> None:
    kept, every = Scrollback(limit, 0), b""
    for part in parts:
        kept.append(part, kept.end)
        every += part
        at, found = kept.replay_start, b""
        while data := kept.since(at):
            found += data
            at += len(data)
        assert found == every[len(every) - min(limit, len(every)) :]
        assert kept.end == len(every)
        assert kept.end - kept.start <= limit + 6000


@given(chunks, st.integers(0, 500), st.integers(0, 20000))
def test_one_that_lags_finds_what_he_needs_up_to_the_backlog(parts: list[bytes], limit: int, backlog: int) -> None:
    kept, every, cursor = Scrollback(limit, backlog), b"", 0
    for part in parts:
        kept.append(part, cursor)
        every += part
        assert kept.start <= max(cursor, kept.end - limit - backlog)
        assert kept.end - kept.start <= limit + backlog + 6000
        cursor = max(cursor, kept.start)
        assert every[cursor:].startswith(kept.since(cursor, 100))
        cursor += len(kept.since(cursor, 100))


def test_what_is_no_longer_there_is_not_given_and_of_the_rest_as_much_as_asked_for() -> None:
    kept = Scrollback(100, 0)
    for letter in b"abc":
        kept.append(bytes([letter]) * 5000, kept.end)
    assert (kept.start, kept.end, kept.replay_start) == (10_000, 15_000, 14_900)
    with pytest.raises(IndexError, match="offset 9999 is before 10000"):
        kept.since(9999)
    assert kept.since(10_000) == b"c" * 5000 and kept.since(14_999) == b"c" and kept.since(15_000) == b""
    kept = Scrollback(100_000, 0)
    for letter in b"abc":
        kept.append(bytes([letter]) * 5000, kept.end)
    assert kept.since(0, 10_000) == b"a" * 5000 + b"b" * 5000 and kept.since(0, 9_999) == b"a" * 5000
    assert kept.since(5001, 1) == b"b" * 4999
