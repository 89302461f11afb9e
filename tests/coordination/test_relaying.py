"""Requests and answers of the relay, for any bytes."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from treadle.coordination.relaying import RelayRequest, answer, parse_answer, parse_request
from treadle.errors import ConfigError

names = st.binary(max_size=20).map(lambda name: name.decode(errors="surrogateescape"))
made = st.none() | st.lists(st.tuples(names, st.lists(names, max_size=3)), max_size=3)


@given(names, names, st.lists(names, max_size=4), st.binary(max_size=50), made)
def test_a_request_arrives_as_it_was_sent(
    top: str, command: str, words: list[str], stdin: bytes, changed: list[tuple[str, list[str]]] | None
) -> None:
    line = RelayRequest(top, command, words, stdin, changed).line()
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    found = parse_request(line)
    assert (found.top, found.command, found.arguments, found.stdin) == (top, command, words, stdin)
    assert found.changed == changed


@given(st.integers(0, 255), st.binary(max_size=50), st.binary(max_size=50))
def test_an_answer_arrives_as_it_was_sent(code: int, out: bytes, err: bytes) -> None:
    assert parse_answer(answer(code, out, err)) == (code, out, err)


@given(st.binary(max_size=200) | st.just(b"[" * 100_000) | st.just(b'{"code":1,"out":"\\ud800","err":""}'))
def test_anything_else_is_refused_and_nothing_else_happens(line: bytes) -> None:
    for parse in (parse_request, parse_answer):
        with contextlib.suppress(ConfigError):
            parse(line)
