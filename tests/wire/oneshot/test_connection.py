"""The order of prompts and results, and lines that are not records."""

import pytest

from treadle.errors import InvalidJson, LocalProtocolError, RemoteProtocolError
from treadle.wire.oneshot.connection import Connection
from treadle.wire.oneshot.records import RunResult, usage

PROMPT = b'{"type":"user","message":{"role":"user","content":"go"}}\n'
RESULT = RunResult(result="ok", session_id="s", subtype="success", is_error=False, usage=usage())


def test_each_prompt_gets_exactly_one_result() -> None:
    run = Connection("run")
    with pytest.raises(LocalProtocolError, match="result may not be sent while ready"):
        run.send(RESULT)
    run.receive(PROMPT * 2)
    run.send(RESULT)
    assert run.state == "answering"
    run.send(RESULT)
    with pytest.raises(LocalProtocolError):
        run.send(RESULT)


def test_a_prompt_on_the_command_line_is_owed_a_result_too() -> None:
    run = Connection("run")
    run.prompted()
    assert run.send(RESULT).startswith(b'{"type":"result","result":"ok"')
    assert run.state == "ready"


def test_a_script_cannot_say_what_only_a_run_says() -> None:
    [error] = Connection("run").receive(b'{"type":"result","result":"mine"}\n')
    assert isinstance(error, RemoteProtocolError)


def test_a_record_of_a_later_version_is_a_value_to_skip() -> None:
    run = Connection("run")
    assert run.receive(b'{"type":"later"}\n{"no":"type"}\n') == [{"type": "later"}, {"no": "type"}]
    with pytest.raises(LocalProtocolError):
        run.send({"type": "later"})


@pytest.mark.parametrize("line", [b"{", b"[]", b'"\xff"', b"[" * 100_000])
def test_a_line_that_is_no_record_is_an_error_in_its_place_and_the_next_counts(line: bytes) -> None:
    error, prompt = Connection("run").receive(line + b"\n\n" + PROMPT)
    assert isinstance(error, InvalidJson) and prompt["type"] == "user"


def test_a_prompt_that_is_taken_back_is_owed_nothing() -> None:
    run = Connection("run")
    run.receive(PROMPT * 2)
    run.withdrawn()
    assert run.state == "answering"
    run.withdrawn()
    assert run.state == "ready"
    with pytest.raises(LocalProtocolError):
        run.send(RESULT)


def test_a_result_of_a_tool_is_of_the_same_type_as_a_prompt_and_owes_nothing() -> None:
    run, script = Connection("run"), Connection("script")
    user = {"type": "user", "message": {"content": []}}
    line = run.send(user)
    assert script.receive(line) == [user] and run.state == script.state == "ready"
    assert Connection("script").send(user) == line and Connection("run").receive(b'{"type":"keep_alive"}\n')
    late = Connection("script")
    assert late.receive(b'{"type":"later"}\n') == [{"type": "later"}], "a later run may say more"
    [mine] = Connection("run").receive(b'{"type":"assistant"}\n')
    assert isinstance(mine, RemoteProtocolError)
