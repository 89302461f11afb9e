"""What completion asks at run time."""

from treadle.agent.records import TurnBegan
from treadle.agent.transcript import Transcript
from treadle.cli.completion.lists import LISTS, rows


def test_each_list_is_words_with_what_they_are() -> None:
    for kind in LISTS:
        assert all(line.count("\t") == 1 for line in rows(kind).splitlines())
    assert "native\tagent\n" in rows("agents") and "plan\t\n" in rows("modes") and rows("terminals") == ""


def test_what_was_said_cannot_break_a_line_or_act_on_the_terminal() -> None:
    transcript = Transcript.create(cwd="/x", model="m", session_id="abc")
    transcript.append(TurnBegan(turn="t", prompt="one\ntwo\tthree\x1b[2J"))
    transcript.close()
    Transcript.create(cwd="/x", model="m", session_id="empty").close()
    assert rows("sessions") == "abc\tone two three\N{REPLACEMENT CHARACTER}[2J\n"
