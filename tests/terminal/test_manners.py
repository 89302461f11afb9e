from hypothesis import example, given
from hypothesis import strategies as st

from treadle.terminal.keyboard import is_one_key


@given(st.binary(max_size=20))
@example(b"\x1b[")
@example(b"\x1bO")
def test_enter_is_never_taken_for_an_answer(data: bytes) -> None:
    assert not is_one_key(data + b"\r")
