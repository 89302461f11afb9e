"""Any text is a verdict or refused, and each answer has a schema."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import RemoteProtocolError
from treadle.wire.goal.verdicts import ReviewVerdict, in_words


@given(st.text('{}[]":, averdictpo\n`', max_size=60))
def test_any_text_is_a_verdict_or_refused(text: str) -> None:
    try:
        in_words(ReviewVerdict, text)
    except RemoteProtocolError:
        pass
