"""A recorded agent: it waits for what the host said then, and answers with the host's ids of now."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle.testing.replay import is_prompt, shape

CALL = {"dir": "in", "line": {"id": 1, "method": "turn/start", "params": {}}}
ANSWER = {"dir": "out", "line": {"id": 1, "result": {"cwd": "/w/src"}}}
MORE = {"dir": "out", "line": {"method": "said", "params": {"text": "hi"}}, "times": 2}


def played(tmp_path: Path, *said: Any, words: tuple[str, ...] = (), lines: Any = (CALL, ANSWER, MORE)) -> Any:
    recording = tmp_path / "r.jsonl"
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
    argv = [sys.executable, "-m", "treadle.testing.replay", str(recording), *words]
    text = "".join(json.dumps(each) + "\n" for each in said)
    return subprocess.run(argv, input=text, capture_output=True, text=True, errors="replace", cwd=tmp_path, timeout=60)


def test_it_answers_by_the_ids_and_in_the_directory_of_now(tmp_path: Path) -> None:
    done = played(tmp_path, {"id": 77, "method": "turn/start", "params": {"other": 1}}, words=("--ignored", "x"))
    answer, *rest = [json.loads(line) for line in done.stdout.splitlines()]
    assert answer == {"id": 77, "result": {"cwd": f"{tmp_path}/src"}} and len(rest) == 2 and done.returncode == 0


def test_it_says_nothing_before_it_was_asked_and_ends_with_its_host(tmp_path: Path) -> None:
    done = played(tmp_path, {"id": 1, "method": "something/else"})
    assert (done.stdout, done.returncode) == ("", 0)


def test_an_answer_that_must_be_exact_is_waited_for(tmp_path: Path) -> None:
    reply = {"dir": "in", "line": {"id": 5, "result": "yes"}, "exact": True}
    lines = (CALL, reply, MORE)
    assert played(tmp_path, CALL["line"], {"id": 5, "result": "no"}, lines=lines).stdout == ""
    assert played(tmp_path, CALL["line"], {"id": 5, "result": "yes"}, lines=lines).stdout.count("said") == 2


@pytest.mark.parametrize(
    ("fault", "code", "lines"), [("exit", 0, 1), ("crash", 3, 1), ("cut", 1, 2), ("garbage", 0, 11)]
)
def test_a_fault_comes_after_as_many_lines_as_asked(tmp_path: Path, fault: str, code: int, lines: int) -> None:
    done = played(tmp_path, CALL["line"], words=("--fault", fault, "--after", "1"))
    assert done.returncode == code and len(done.stdout.splitlines()) == lines, done.stdout


def test_it_says_the_version_that_was_recorded(tmp_path: Path) -> None:
    assert played(tmp_path, words=("--version",), lines=({"version": "1.2", "dir": ""},)).stdout == "1.2\n"


def test_what_makes_two_lines_equal_are_their_kinds_and_not_their_texts() -> None:
    assert shape({"id": 1, "method": "m"}) == shape({"id": 2, "method": "m", "params": 3})
    assert shape({"id": 1, "result": 0}) != shape({"id": 2, "result": 0})
    assert shape({"type": "control_request", "request": {"subtype": "a"}}) != shape({"type": "control_request"})
    assert is_prompt({"type": "user"}) and is_prompt({"method": "session/prompt"}) and not is_prompt({"method": "x"})
