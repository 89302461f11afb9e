import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal.manners import as_paste, is_one_key, refusal


@pytest.mark.parametrize("name", ["permission", "question"])
def test_while_a_dialog_waits_only_a_single_key_is_typed(name: str) -> None:
    state = {"name": name}
    assert refusal(state, b"next thing", enter=True) == name
    assert refusal(state, b"next thing", enter=False) == name
    assert refusal(state, b"\r", enter=True) == refusal(state, b"\r", enter=False) == name
    assert refusal(state, b"1", enter=True) == name
    for key in (b"1", b"y", "é".encode(), b"\x1b", b"\x1b[B", b"\x1bOA", b"\t"):
        assert refusal(state, key, enter=False) == ""


@pytest.mark.parametrize("name", ["unknown", "starting"])
def test_where_nobody_can_tell_enter_is_not_pressed(name: str) -> None:
    assert refusal({"name": name}, b"text", enter=True) == name
    assert refusal({"name": name}, b"text", enter=False) == ""


@pytest.mark.parametrize("name", ["idle", "error", "thinking", "streaming", "tool_use"])
def test_an_agent_that_is_idle_failed_or_at_work_takes_a_text(name: str) -> None:
    assert refusal({"name": name}, b"text", enter=True) == ""
    assert refusal({"name": name, "settling": True}, b"text", enter=True) == "settling"


@given(st.binary(max_size=20))
def test_enter_is_never_taken_for_an_answer(data: bytes) -> None:
    assert not is_one_key(data + b"\r")


def test_text_is_pasted_and_keys_and_commands_are_not() -> None:
    assert as_paste(b"two\nlines") == b"\x1b[200~two\nlines\x1b[201~"
    for data in (b"", b"x", b"/exit", b"!ls", b"\x1b[A\x1b[B", b"a\x03", b"evil\x1b[201~\r"):
        assert as_paste(data) == data
