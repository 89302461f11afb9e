"""What was said last."""

from pathlib import Path

from treadle.agent.messages import AssistantMessage, UserMessage
from treadle.agent.records import MessageRecord
from treadle.agent.transcript import Transcript
from treadle.cli.chat.last import last_words
from treadle.cli.chat.page import Page


def test_the_last_prompt_and_the_last_answer(tmp_path: Path) -> None:
    transcript = Transcript.create(cwd=str(tmp_path), model="m")
    for message in (
        UserMessage(text="first"),
        AssistantMessage(text="one"),
        UserMessage(text="se\x1bcond"),
        AssistantMessage(text="**two**"),
    ):
        transcript.append(MessageRecord(turn="t", message=message), sync=True)
    transcript.close()
    assert last_words(transcript.header.id, Page(lambda: 60, colour=False)) == "\n> se\ufffdcond\n\ntwo\n"


def test_a_session_that_is_kept_elsewhere_has_none_here() -> None:
    assert last_words("unheard-of", Page(lambda: 60)) == ""
