"""A kept session as a document."""

import re

import pytest

from treadle.agent.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from treadle.agent.stored_sessions import TITLE, SessionDocument, as_html, as_json, as_markdown, fenced
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
    for text in (as_markdown(document), as_html(document), str(as_json(document))):
        assert "why?" in text and "look" in text and "So it is." in text


def test_no_secret_leaves_in_any_form(document: SessionDocument) -> None:
    for text in (as_markdown(document), as_html(document), str(as_json(document))):
        assert KEY not in text and text.count("[redacted]") >= 2


def test_nothing_that_an_agent_said_runs_or_loads_in_the_page(document: SessionDocument) -> None:
    page = as_html(document)
    assert "<script" not in page and not re.search(r"<img|href=\"javascript", page)
    assert "default-src 'none'" in page and "&lt;script&gt;" in page


def test_a_cost_nobody_told_is_unknown(document: SessionDocument) -> None:
    assert "7 tokens · cost unknown" in document.about() and as_json(document)["cost_usd"] is None


def test_without_the_tools_a_call_is_one_line(document: SessionDocument) -> None:
    short = as_markdown(document, tools=False)
    assert (
        "- `bash` " in short and "Result of" not in short and "Result of `bash`, which failed" in as_markdown(document)
    )


def test_a_fence_is_longer_than_any_inside() -> None:
    assert fenced("a ```` b").startswith("`````\n") and fenced("a") == "```\na\n```"


def test_each_form_has_who_said_what_in_its_order(document: SessionDocument) -> None:
    whole = as_json(document)
    assert [message["role"] for message in whole["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert whole["messages"][2] == {
        "role": "tool",
        "call": "c",
        "name": "bash",
        "ok": False,
        "text": "```\n</pre><script>",
    }
    assert (whole["id"], whole["cwd"], whole["model"], whole["turns"], whole["total_tokens"]) == (
        "abc",
        "/work",
        "m",
        1,
        7,
    )
    text = as_markdown(document)
    assert text.startswith("# why?\n\nsession abc · ") and " · /work · m · 1 turns · " in text
    assert text.index("## You\n\nwhy?") < text.index("Calls `bash`:\n\n```\n{") < text.index("Result of `bash`, which")
    assert text.endswith("## Agent\n\nSo it is.\n") and "````\n```\n</pre>" in text
    page = as_html(document)
    assert "<title>why?</title>" in page and "<h1>why?</h1>\n<p class=about>session abc" in page
    assert "<h2>You</h2>\n<div class=user><p>why?" in page and "<strong>look</strong>" in page
    assert "<summary>Calls bash</summary><pre>{&quot;command" in page
    assert "<summary>Result of bash (failed)</summary><pre>```" in page


def test_a_session_in_which_no_model_was_asked_has_no_tokens_and_its_name_is_its_title() -> None:
    made = Transcript.create(cwd="/work", model="m", session_id="bare", name=f"night {KEY}")
    made.append(
        MessageRecord(
            message=AssistantMessage(text=" ", calls=(ToolCall(id="c", name="x", arguments="a `b` " + "y" * 120),))
        )
    )
    made.append(MessageRecord(message=ToolResult(call="c", name="x", text="fine")))
    document = SessionDocument(made, Redactor())
    assert document.title == "night [redacted]" and "tokens unknown · cost unknown" in document.about()
    assert as_json(document)["total_tokens"] is None and as_json(document)["cost_usd"] is None
    assert f"## Agent\n\n- `x` `a 'b' {'y' * 94}`\n" in as_markdown(document, tools=False)
    assert "Result of `x`:\n" in as_markdown(document) and "Result of x</summary>" in as_html(document)
    made.append(Spent(usage=Usage(input_tokens=1, cost_usd=0.5)))
    assert "$0.5000" in SessionDocument(made, Redactor()).about()
    assert as_json(SessionDocument(made, Redactor()))["cost_usd"] == 0.5
    made.close()


def test_without_a_name_the_first_prompt_or_the_id_is_the_title() -> None:
    made = Transcript.create(cwd="/work", model="m", session_id="bare")
    assert SessionDocument(made, Redactor()).title == "session bare"
    made.append(TurnBegan(turn="t", prompt="two\n words " + "x" * 100))
    assert SessionDocument(made, Redactor()).title == ("two words " + "x" * 100)[:TITLE]
    made.close()
