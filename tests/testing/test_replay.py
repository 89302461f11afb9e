"""A recorded agent: it waits for what the host said then, and answers with the host's ids of now."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.waiting import until
from treadle.testing import replay
from treadle.testing.replay import is_prompt, main, shape

CALL = {"dir": "in", "line": {"id": 1, "method": "turn/start", "params": {}}}
ANSWER = {"dir": "out", "line": {"id": 1, "result": {"cwd": "/w/src"}}}
MORE = {"dir": "out", "line": {"method": "said", "params": {"text": "hi"}}, "times": 2}
Played: TypeAlias = Callable[..., tuple[int, list[Any]]]


def lines_of(*entries: Any) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def outside(tmp_path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """The program as a host starts it."""
    (tmp_path / "r.jsonl").write_text(lines_of(CALL, ANSWER, MORE))
    argv = [sys.executable, "-m", "treadle.testing.replay", str(tmp_path / "r.jsonl"), *words]
    return subprocess.run(argv, input=lines_of(CALL["line"]), capture_output=True, text=True, cwd=tmp_path, timeout=60)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Played:
    """What it returns and says; what the host said is read to its end, whatever is left of it."""

    def play(*said: Any, words: tuple[str, ...] = (), lines: Any = (CALL, ANSWER, MORE)) -> tuple[int, list[Any]]:
        (tmp_path / "r.jsonl").write_text(lines_of(*lines))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["replay", str(tmp_path / "r.jsonl"), *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines_of(*said).encode())))
        code = main()
        found: list[Any] = []
        for line in capsysbinary.readouterr().out.splitlines():
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError):
                found.append(line)
        return code, found

    return play


def test_it_answers_by_the_ids_and_in_the_directory_of_now(tmp_path: Path, played: Played) -> None:
    call = {"id": 77, "method": "turn/start", "params": {"other": 1}}
    code, (answer, *rest) = played(call, {"later": 1}, words=("--ignored", "x"))
    assert answer == {"id": 77, "result": {"cwd": f"{tmp_path}/src"}} and code == 0
    assert rest == [MORE["line"]] * 2 and sys.stdin.read() == ""


def test_ids_are_learned_at_any_depth_and_nothing_else_is(tmp_path: Path, played: Played) -> None:
    asked = {"id": 1, "method": "turn/start", "params": {"sessionId": "s", "text": "s", "n": {"uuid": True}}}
    now = {"id": "1", "method": "turn/start", "params": {"sessionId": "S", "text": "t", "n": {"uuid": 5}}}
    told = {"id": 1, "text": "s", "threadId": ["s", 2], "x": [{"session_id": "s", "uuid": True}], "request_id": "1"}
    places = {"a": "/w", "b": "in /w/x", "c": "/web", "d": "a/w", "e": "/w.txt", "f": 7, "é": "é"}
    _, found = played(now, lines=({"dir": "in", "line": asked}, {"dir": "out", "line": {**told, **places}}))
    assert found == [
        {
            **{"id": "1", "text": "s", "threadId": ["S", 2], "x": [{"session_id": "S", "uuid": True}]},
            **{"request_id": "1", "a": f"{tmp_path}", "b": f"in {tmp_path}/x"},
            **{"c": "/web", "d": "a/w", "e": "/w.txt", "f": 7, "é": "é"},
        }
    ]


def test_what_the_host_says_early_is_kept_and_lines_without_a_side_are_passed_over(played: Played) -> None:
    other = {"dir": "in", "line": {"type": "other"}}
    lines = ({"dir": "in", "line": "no object"}, CALL, other, {"dir": "note"}, {"dir": "out", "line": "plain text"})
    assert played(other["line"], CALL["line"], lines=lines) == (0, [b"plain text"])
    assert played(CALL["line"], lines=lines) == (0, [])


def test_it_says_nothing_before_it_was_asked_and_ends_with_its_host(played: Played) -> None:
    assert played({"id": 1, "method": "something/else"}) == (0, [])


def test_a_line_can_be_said_very_often(played: Played) -> None:
    _, found = played(lines=({**MORE, "times": 2500},))
    assert found == [MORE["line"]] * 2500


def test_an_answer_that_must_be_exact_is_waited_for(played: Played) -> None:
    reply = {"dir": "in", "line": {"id": 5, "result": "yes"}, "exact": True}
    lines = (CALL, reply, MORE)
    assert played(CALL["line"], {"id": 5, "result": "no"}, lines=lines) == (0, [])
    assert len(played(CALL["line"], {"id": 5, "result": "no"}, {"id": 5, "result": "yes"}, lines=lines)[1]) == 2
    assert len(played(CALL["line"], {"id": 5, "result": "no"}, lines=(CALL, {**reply, "exact": False}, MORE))[1]) == 2


JUNK = [b"\x00\xff\xfe", b"not json", b"[1,2", [], 7, b"", b"[" * 5000]
LATER = {"type": "something later", "method": "something/later", "jsonrpc": "2.0"}


def test_a_fault_comes_after_as_many_lines_as_asked_and_most_go_on(
    tmp_path: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "GIANT", 2 << 20)
    monkeypatch.setattr(replay, "FLOOD", 300)
    answer, more = {"id": 1, "result": {"cwd": f"{tmp_path}/src"}}, [MORE["line"]] * 2
    before = {"dir": "out", "line": {"before": 1}}
    cases: dict[str, list[Any]] = {
        "exit": [],
        "garbage": [*JUNK, LATER, *more],
        "giant": [{"type": "giant", "text": "x" * (2 << 20)}, *more],
        "flood": [LATER] * 300 + more,
    }
    for fault, rest in cases.items():
        found = played(CALL["line"], words=("--fault", fault), lines=(before, CALL, ANSWER, MORE))
        assert found == (0, [before["line"], answer, *rest]), fault
    assert played(CALL["line"], words=("--fault", "exit", "--after", "0")) == (0, [])
    assert played(CALL["line"], words=("--fault", "exit", "--after", "2")) == (0, [answer, *more])


def test_one_that_hangs_says_no_more_and_one_that_is_deaf_has_no_input(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    closed: list[int] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(os, "close", closed.append)
    found = [played(CALL["line"], words=("--fault", fault)) for fault in ("hang", "deaf")]
    monkeypatch.undo()
    assert [(code, len(lines)) for code, lines in found] == [(0, 1)] * 2 and (slept, closed) == ([600, 600], [0])


async def test_a_crash_has_a_code_and_last_words_and_its_child_a_session_of_its_own(tmp_path: Path) -> None:
    done = outside(tmp_path, "--fault", "crash", "--child", "echo $$ $(cut -d' ' -f6 /proc/$$/stat) > child")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (3, "it went wrong\n", 1)
    await until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().endswith("\n"))
    pid, session = (tmp_path / "child").read_text().split()
    assert pid == session


def test_a_line_can_be_cut(tmp_path: Path) -> None:
    done = outside(tmp_path, "--fault", "cut")
    assert done.returncode == 1 and done.stdout.splitlines()[1] == json.dumps(MORE["line"])[:-3]


def test_it_says_the_version_that_was_recorded(tmp_path: Path, played: Played) -> None:
    assert played(words=("--version",), lines=({"dir": ""}, {"version": "1.2", "dir": ""})) == (0, [1.2])
    assert played(words=("--version",)) == (0, [b"0.0.0"])


def test_what_makes_two_lines_equal_are_their_kinds_and_not_their_texts() -> None:
    assert shape({"id": 1, "method": "m"}) == shape({"id": 2, "method": "m", "params": 3}) == (None, "m", None, None)
    assert shape({"id": 1, "result": 0}) != shape({"id": 2, "result": 0}) and shape({"id": 1, "error": 0})[3] == 1
    assert (
        shape({"id": 1, "method": "m", "result": 0})[3] is None and shape({"id": 1})[3] is None and shape("x") is None
    )
    assert shape({"type": "control_request", "request": {"subtype": "a"}}) == ("control_request", None, "a", None)
    assert shape({"type": "t", "request": "a", "response": {"request_id": "r"}}) == ("t", None, None, "r")
    assert is_prompt({"type": "user"}) and is_prompt({"type": "prompt"}) and is_prompt({"method": "turn/start"})
    assert is_prompt({"method": "session/prompt"}) and not is_prompt({"method": "x"}) and not is_prompt("user")
