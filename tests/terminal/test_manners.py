import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treadle.terminal.keyboard import answer_refusal, as_paste, is_one_key, refusal


@pytest.mark.parametrize("name", ["permission", "question"])
def test_while_a_dialog_waits_nothing_is_typed_that_is_no_answer(name: str) -> None:
    state = {"name": name}
    assert refusal(state, b"next thing", enter=True) == name
    assert refusal(state, b"next thing", enter=False) == name
    assert refusal(state, b"\r", enter=True) == refusal(state, b"\r", enter=False) == name
    assert refusal(state, b"1", enter=True) == name
    for key in (b"1", b"y", "é".encode(), b"\x1b", b"\x1b[B", b"\x1bOA", b"\t"):
        assert refusal(state, key, enter=False) == name
        assert refusal({"name": "thinking", "settling": True, "dialog": "1-0"}, key, enter=False) == "settling"


def test_an_answer_is_one_key_or_enter_while_it_asks_and_at_no_other_time() -> None:
    for key in (b"1", b"y", b"\x1b", b"\x1b[B", b"\r"):
        assert answer_refusal({"name": "permission"}, key) == ""
        assert answer_refusal({"name": "permission", "settling": True}, key) == "settling"
        for name in ("idle", "error", "submitted", "starting", "thinking", "unknown", "dead"):
            assert answer_refusal({"name": name}, key) == "no question"
    for text in (b"", b"yes", b"1\r", b"y\n"):
        assert answer_refusal({"name": "question"}, text) == "no key"


@pytest.mark.parametrize("name", ["unknown", "starting", "thinking", "streaming", "tool_use"])
def test_enter_is_not_pressed_where_a_dialog_may_come_before_it_is_read(name: str) -> None:
    assert refusal({"name": name}, b"text", enter=True) == name
    assert refusal({"name": name}, b"text", enter=False) == ""


@pytest.mark.parametrize("name", ["idle", "error"])
def test_an_agent_at_rest_takes_a_text(name: str) -> None:
    assert refusal({"name": name}, b"text", enter=True) == ""
    assert refusal({"name": name, "settling": True}, b"text", enter=True) == "settling"


def test_until_something_came_of_the_last_text_no_other_is_typed() -> None:
    assert refusal({"name": "submitted"}, b"text", enter=False) == "submitted"
    assert refusal({"name": "submitted"}, b"\x1b", enter=False) == ""


def test_a_newline_in_a_text_for_an_agent_is_an_enter() -> None:
    assert refusal({"name": "thinking", "agent": "claude"}, b"text\n", enter=False) == "thinking"
    assert refusal({"name": "thinking", "agent": "claude"}, as_paste(b"two\nlines"), enter=False) == ""
    assert refusal({"name": "unknown", "agent": None}, b"ls\n", enter=False) == ""


@given(st.binary(max_size=20))
@example(b"\x1b[")
@example(b"\x1bO")
def test_enter_is_never_taken_for_an_answer(data: bytes) -> None:
    assert not is_one_key(data + b"\r")


def test_text_is_pasted_and_keys_and_commands_are_not() -> None:
    assert as_paste(b"two\nlines") == b"\x1b[200~two\nlines\x1b[201~"
    for data in (b"", b"x", b"/exit", b"!ls", b"\x1b[A\x1b[B", b"a\x03", b"ab\x7f\x7f", b"evil\x1b[201~\r"):
        assert as_paste(data) == data


def test_two_letters_are_pasted_and_half_of_a_sequence_is_no_key() -> None:
    assert as_paste(b"ab") == b"\x1b[200~ab\x1b[201~"
    assert as_paste(b"/exit\nnow") == b"\x1b[200~/exit\nnow\x1b[201~"
    for data, one in (
        (b"", True),
        (b"\x1b", True),
        (b"\x1b[", False),
        (b"\x1bO", False),
        (b"\x1b[1;5A", True),
        (b"\x1bx", False),
    ):
        assert is_one_key(data) is one, data
    assert not is_one_key(b"\xff") and not is_one_key(b"\xc3\xa9\xc3\xa9") and not is_one_key(b"\x1b[aA")
    assert refusal({"name": "idle", "settling": True}, b"1", enter=False) == ""
    assert refusal({"name": "auth"}, b"text", enter=False) == "auth" and answer_refusal({"name": "auth"}, b"1") == ""
