"""What was said last."""

from pathlib import Path

from treadle.agent.messages import AssistantMessage, UserMessage
from treadle.agent.transcript import MessageRecord, Transcript
from treadle.cli.chat.command import last_words
from treadle.cli.chat.page import Page


def last(cwd: Path, *messages: UserMessage | AssistantMessage, colour: bool = False) -> str:
    transcript = Transcript.create(cwd=str(cwd), model="m")
    for message in messages:
        transcript.append(MessageRecord(turn="t", message=message), sync=False)
    transcript.close()
    return last_words(transcript.header.id, Page(lambda: 60, colour=colour))


def test_the_last_prompt_and_the_last_answer(tmp_path: Path) -> None:
    first = UserMessage(text="first"), AssistantMessage(text="one")
    second = UserMessage(text="se\x1bcond"), AssistantMessage(text="**two**")
    assert last(tmp_path, *first, *second) == "\n> se\ufffdcond\n\ntwo\n"
    assert last(tmp_path, *first, *second, UserMessage(text=""), AssistantMessage(text="")) == last(tmp_path, *second)
    assert last(tmp_path, *first, second[0]) == "\n> se\ufffdcond\n\none\n"


def test_what_was_not_said_is_not_shown(tmp_path: Path) -> None:
    assert last(tmp_path, UserMessage(text="first")) == "\n> first\n\n"
    assert last(tmp_path, AssistantMessage(text="one")).strip() == "one"


def test_in_colour_the_prompt_is_drawn_as_in_the_chat(tmp_path: Path) -> None:
    shown = last(tmp_path, UserMessage(text="first"), colour=True)
    assert shown == "\n" + Page(lambda: 60, colour=True).prompt("first") and "\x1b[" in shown


def test_a_session_that_is_kept_elsewhere_has_none_here() -> None:
    assert last_words("unheard-of", Page(lambda: 60)) == ""
