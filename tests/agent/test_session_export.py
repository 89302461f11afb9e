"""A kept session as a document."""

import msgspec
import pytest

from treadle.agent.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from treadle.agent.stored_sessions import SessionDocument, as_atif, as_markdown
from treadle.agent.transcript import Compacted, MessageRecord, Spent, Transcript, TurnBegan
from treadle.errors import ConfigError
from treadle.events import Usage
from treadle.redact import Redactor
from treadle.sessions import atif

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
    for text in (as_markdown(document), as_atif(document).decode()):
        assert "why?" in text and "look" in text and "So it is." in text


def test_no_secret_leaves_in_any_form(document: SessionDocument) -> None:
    for text in (as_markdown(document), as_atif(document).decode()):
        assert KEY not in text and text.count("[redacted]") >= 2


def test_a_trajectory_has_a_step_for_each_prompt_and_reply_and_results_with_their_calls(
    document: SessionDocument,
) -> None:
    """The shape that Harbor's validator (0.24) accepts."""
    found = msgspec.json.decode(as_atif(document))
    assert set(found) == {"schema_version", "session_id", "agent", "steps", "final_metrics", "extra"}
    assert found["schema_version"] == "ATIF-v1.5" and set(found["agent"]) == {"name", "version", "model_name"}
    assert [(step["step_id"], step["source"]) for step in found["steps"]] == [(1, "user"), (2, "agent"), (3, "agent")]
    (call,) = found["steps"][1]["tool_calls"]
    assert call == {"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "curl -H [redacted]"}}
    (result,) = found["steps"][1]["observation"]["results"]
    assert result == {"source_call_id": "c", "content": "```\n</pre><script>"}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[]", "is not an ATIF trajectory"),
        (b'{"schema_version": "ATIF-v1.4", "agent": {"name": "a", "version": "1"}}', "is not an ATIF trajectory"),
        (b'{"schema_version": "ATIF-v2.0", "agent": {"name": "a", "version": "1"}, "steps": []}', "ATIF-v2.0"),
    ],
)
def test_what_is_no_trajectory_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        atif.read_trajectory(data, "it")
