"""Requests and answers of the relay, for any bytes."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.coordination import relay
from treadle.coordination.relay import RelayRequest, answer, ask, line_from, parse_answer, parse_request
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


@pytest.mark.parametrize(
    ("parse", "line", "words"),
    [
        (parse_request, {"top": "/", "command": "claim", "arguments": [], "more": 1}, "not a request of the relay"),
        (
            parse_request,
            {"top": "/", "command": "c", "arguments": [], "changed": [{"by": "", "files": [], "more": 1}]},
            "not a request of the relay",
        ),
        (parse_answer, {"code": 0, "out": "", "err": "", "more": 1}, "not an answer of the relay"),
        (parse_answer, {"code": 0, "out": ""}, "not an answer of the relay"),
    ],
)
def test_what_has_a_field_too_many_or_too_few_is_refused_by_name(parse: Any, line: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(json.dumps(line).encode())


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[bytes]]]:
    """Our process outside: takes one request, and says this in pieces."""
    monkeypatch.setattr(relay, "RELAY", str(tmp_path / "relay"))
    with contextlib.ExitStack() as stack:

        def listen(*pieces: bytes) -> list[bytes]:
            there = stack.enter_context(socket.socket(socket.AF_UNIX))
            there.bind(relay.RELAY)
            there.listen()
            heard: list[bytes] = []

            def serve() -> None:
                with there.accept()[0] as caller, caller.makefile("rb") as lines:
                    heard.append(lines.readline())
                    for piece in pieces:
                        caller.sendall(piece)

            thread = threading.Thread(target=serve)
            thread.start()
            stack.callback(thread.join)
            return heard

        yield listen


REQUEST = RelayRequest("/top", "claim", ["list"], b"in", [("me", ["a"])])


def test_one_who_hangs_up_has_not_answered(outside: Callable[..., list[bytes]]) -> None:
    outside(b'{"code"')
    with pytest.raises(ConfigError, match=r"did not answer: it closed the connection \(its effect is unknown"):
        ask(REQUEST)


def test_a_request_is_bounded_and_so_is_an_answer(
    outside: Callable[..., list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(REQUEST.line())
    monkeypatch.setattr(relay, "LARGEST", size - 1)
    with pytest.raises(ConfigError, match="the limit for requests from a sandbox"):
        ask(REQUEST)
    monkeypatch.setattr(relay, "LARGEST", size)
    outside(answer(0, b"", b""))
    assert ask(REQUEST) == (0, b"", b"")
    monkeypatch.setattr(relay, "LARGEST", 1)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"12345")
        assert line_from(ours) == b"12345", "no one waits for the end of what is too long"
        theirs.sendall(b"1234")
        theirs.close()
        with pytest.raises(ConfigError, match="closed the connection"):
            line_from(ours)
