"""A kept session as a document."""

import pytest

from treadle.agent.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from treadle.agent.stored_sessions import SessionDocument, as_json, as_markdown
from treadle.agent.transcript import Compacted, MessageRecord, Spent, Transcript, TurnBegan
from treadle.events import Usage
from treadle.redact import Redactor

KEY = "sk-abcdefghijklmnopqrstuvwx"


@pytest.fixture
def document() -> SessionDocument:
    transcript = Transcript.create(cwd="/work", model="m", session_id="abc")
    call = ToolCall(id="c", name="bash", arguments=f'{{"command": "curl -H {KEY}"}}')
    transcript.append(
        TurnBegan(turn="t", prompt="why?"),
        MessageRecord(message=UserMessage(text=f"why? my key is {KEY} <script>alert(1)</script>")),
        MessageRecord(
            message=AssistantMessage(text="I **look**. ![x](http://spy/x.png) [l](javascript:alert(1))", calls=(call,))
        ),
        MessageRecord(message=ToolResult(call="c", name="bash", text="```\n</pre><script>", ok=False)),
        Compacted(summary="nothing", retained=0),
        MessageRecord(message=AssistantMessage(text="So it is.")),
        Spent(usage=Usage(input_tokens=3, output_tokens=4)),
    )
    transcript.close()
    return SessionDocument(Transcript.read("abc"), Redactor())


def test_all_that_was_said_is_there_also_what_the_model_no_longer_sees(document: SessionDocument) -> None:
    for text in (as_markdown(document), str(as_json(document))):
        assert "why?" in text and "look" in text and "So it is." in text


def test_no_secret_leaves_in_any_form(document: SessionDocument) -> None:
    for text in (as_markdown(document), str(as_json(document))):
        assert KEY not in text and text.count("[redacted]") >= 2


def test_a_cost_nobody_told_is_unknown(document: SessionDocument) -> None:
    assert "7 tokens · cost unknown" in document.about() and as_json(document)["cost_usd"] is None
