"""Finding sessions by what was said in them."""

from treadle.agent.messages import ToolResult, UserMessage
from treadle.agent.stored_sessions import list_sessions, search
from treadle.agent.transcript import MessageRecord, Transcript


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
