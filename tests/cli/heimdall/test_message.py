"""Messages on the command line."""

import json

import pytest

from tests.coordination.conftest import Run

ANN, BOB = "haid:ann.box-0001/native", "haid:bob.box-0002/coder"


def test_a_question_is_asked_read_answered_found_and_acknowledged(heimdall: Run) -> None:
    asked = heimdall("message", "ask", "which port?", "--to", BOB, HEIMDALL_HAID=ANN).stdout.strip()
    assert f"{asked}  {ANN} -> {BOB}  question" in heimdall("message", "read", HEIMDALL_HAID=BOB).stdout
    answer = {"type": "task_result", "from": "bob", "msg_id": "r1", "task": "port", "status": "pass", "reply_to": asked}
    assert heimdall("message", "post", "--to", ANN, stdin=json.dumps(answer), HEIMDALL_HAID=BOB).returncode == 0
    thread = json.loads(heimdall("message", "thread", "r1", "--json").stdout)
    assert [entry["message"]["msg_id"] for entry in thread] == [asked, "r1"]
    assert asked in heimdall("message", "search", "WHICH").stdout
    assert heimdall("message", "search", "nothing").stdout == "(no messages)\n"
    assert "r1" in heimdall("message", "read", "--ack", HEIMDALL_HAID=ANN).stdout
    assert heimdall("message", "read", HEIMDALL_HAID=ANN).stdout == "(no messages)\n"
    assert "r1" in heimdall("message", "read", "--all", HEIMDALL_HAID=ANN).stdout


def test_what_is_no_message_is_refused_with_the_reason(heimdall: Run) -> None:
    for given, why in (("{", "not JSON"), ('{"type": "question"}', "missing required field")):
        refused = heimdall("message", "post", stdin=given, HEIMDALL_HAID=ANN)
        assert refused.returncode == 2 and why in refused.stderr
    assert heimdall("message", "thread", "none").returncode == 1
    assert heimdall("message").returncode == 2


def test_a_message_is_shown_on_two_lines_and_goes_to_all_when_no_one_is_named(heimdall: Run) -> None:
    said = {"type": "question", "from": ANN, "msg_id": "q1", "question": "which?"}
    assert heimdall("message", "post", stdin=json.dumps(said), HEIMDALL_HAID=ANN).stdout.startswith("posted q1 to ")
    asked = heimdall("message", "ask", "why?", "--reply-to", "q1", HEIMDALL_HAID=BOB).stdout.strip()
    head, rest, *answer = heimdall("message", "thread", "q1").stdout.splitlines()
    assert head.split()[1] == "q1" and head.endswith("question") and json.loads(rest) == {"question": "which?"}
    assert answer[0].split()[1] == asked and json.loads(answer[1]) == {"question": "why?", "reply_to": "q1"}
    assert (
        heimdall("message", "read", HEIMDALL_HAID=BOB).stdout == heimdall("message", "read", HEIMDALL_HAID=BOB).stdout
    )
    assert json.loads(heimdall("message", "search", "why", "--json").stdout)[0]["message"]["msg_id"] == asked


@pytest.mark.parametrize(
    "words", [["post", "x"], ["ask"], ["ask", "a", "b"], ["read", "x"], ["thread"], ["search"], ["search", "a", "b"]]
)
def test_what_is_typed_wrongly_is_refused(heimdall: Run, words: list[str]) -> None:
    assert heimdall("message", *words, HEIMDALL_HAID=ANN).returncode == 2
