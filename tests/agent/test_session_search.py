"""Finding sessions by what was said in them."""

import os

from treadle.agent.messages import ToolResult, UserMessage
from treadle.agent.stored_sessions import AROUND, excerpt, list_sessions, search
from treadle.agent.transcript import MessageRecord, Transcript, history_of


def keep(session: str, *said: str) -> None:
    transcript = Transcript.create(cwd="/x", model="m", session_id=session)
    transcript.append(*(MessageRecord(message=UserMessage(text=text)) for text in said))
    transcript.append(MessageRecord(message=ToolResult(call="c", name="bash", text="Zanzibar")))
    transcript.close()


def test_all_words_must_be_in_one_message_whatever_their_case() -> None:
    keep("one", "The Weaver's loom", "a shuttle")
    keep("two", "the loom", "a weaver")
    [hit] = search(["weaver", "LOOM"], list_sessions())
    assert hit.session.id == "one" and hit.count == 1 and hit.excerpts == ("The Weaver's loom",)


def test_what_tools_answered_is_searched_when_asked() -> None:
    keep("one", "hello")
    assert list(search(["zanzibar"], list_sessions())) == []
    assert [hit.session.id for hit in search(["zanzibar"], list_sessions(), tools=True)] == ["one"]


def test_of_many_places_some_are_shown_and_all_counted() -> None:
    keep("one", *["loom"] * 10)
    [hit] = search(["loom"], list_sessions())
    assert hit.count == 10 and len(hit.excerpts) == 3


def test_an_excerpt_is_one_line_around_the_word() -> None:
    assert excerpt("a\nb " + "x" * 200 + " loom " + "y" * 200, "loom").count("loom") == 1
    assert "\n" not in excerpt("a\nloom", "loom") and excerpt("a\nloom", "loom") == "a loom"


def test_the_excerpt_is_cut_on_the_sides_that_have_more() -> None:
    assert excerpt("x" * AROUND + "loom" + "y" * AROUND, "loom") == "x" * AROUND + "loom" + "y" * AROUND
    longer = excerpt("x" * (AROUND + 1) + "loom" + "y" * (AROUND + 1), "loom")
    assert longer == "…" + "x" * AROUND + "loom" + "y" * AROUND + "…"


def test_a_session_whose_file_is_gone_is_passed_over() -> None:
    keep("one", "a loom")
    keep("two", "a loom")
    entries = list_sessions()
    os.unlink(history_of("one"))
    assert [hit.session.id for hit in search(["loom"], entries)] == ["two"]
