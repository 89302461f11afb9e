"""Whatever an agent or an editor says over ACP can be read; what is long is cut."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.events import ImageFile, Message, TextDelta, ToolEnded, ToolOutput, ToolStarted
from treadle.policy.guess import access_of
from treadle.wire.acp.connection import as_list, as_table, diffs_in, prompt_text, text_of, texts_in
from treadle.wire.acp.tools import ToolRecord, UsageMeter, read_counts
from treadle.wire.acp.translation import SHOWN, TAIL, AcpIncoming, AcpOutgoing

WORDS = st.sampled_from(["type", "text", "content", "resource", "uri", "name", "path", "terminalId", "amount", "data"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)
FIELDS = ("kind", "status", "title", "rawInput", "rawOutput", "content", "locations", "_meta", "name")
KINDS = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "usage_update", "odd")
UPDATES = st.fixed_dictionaries(
    {"sessionUpdate": st.sampled_from(KINDS)},
    optional={name: JSON for name in (*FIELDS, "toolCallId", "entries", "cost")},
)
NAMES = st.text(min_size=1)
TABLES = st.dictionaries(st.text(), st.text())
STDIO = st.fixed_dictionaries({"command": NAMES, "args": st.lists(st.text()), "env": TABLES})
REMOTE = st.fixed_dictionaries({"type": st.sampled_from(["http", "sse"]), "url": NAMES, "headers": TABLES})


@given(JSON)
def test_anything_can_be_read(value: Any) -> None:
    assert isinstance(text_of(value), str) and isinstance(prompt_text(value), str)
    assert isinstance(texts_in(value), str) and isinstance(diffs_in(value), list)
    assert all(name and isinstance(entry, dict) for name, entry in as_table(value).items())


@given(st.dictionaries(NAMES, STDIO | REMOTE))
def test_a_list_made_of_a_table_of_servers_gives_the_table_back(table: dict[str, dict[str, Any]]) -> None:
    assert as_table(as_list(table)) == table


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON), max_size=4))
def test_whatever_is_told_of_a_tool_can_be_read(pieces: list[dict[str, Any]]) -> None:
    record = ToolRecord("c1")
    for piece in pieces:
        record.merge(piece)
    assert isinstance(record.tool, str) and isinstance(record.result, str)
    assert all(isinstance(path, str) for path in record.paths) and isinstance(record.effects("x"), list)
    assert record.exit_code is None or isinstance(record.exit_code, int)
    assert isinstance(record.new_output(), str) and isinstance(record.terminals, list)


@given(st.lists(UPDATES, max_size=8))
def test_whatever_an_agent_says_every_tool_that_starts_ends_once(updates: list[dict[str, Any]]) -> None:
    reader = AcpIncoming(access_of, UsageMeter("turn"))
    events = [*(event for update in updates for event in reader.update(update)), *reader.finish("over")]
    started = [event.call for event in events if isinstance(event, ToolStarted)]
    ended = [event.call for event in events if isinstance(event, ToolEnded)]
    assert sorted(started) == sorted(ended) and len(started) == len(set(started))
    texts = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert texts == "".join(event.text for event in events if isinstance(event, Message) and event.kind == "text")


@given(
    st.dictionaries(st.sampled_from(["inputTokens", "outputTokens", "cachedReadTokens", "totalTokens"]), st.integers(0))
)
def test_tokens_are_never_negative(told: dict[str, int]) -> None:
    usage = read_counts(told)
    assert usage is None or min(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) >= 0


def test_a_running_command_shows_the_end_of_its_output() -> None:
    out = AcpOutgoing(lambda args: [])
    out.updates(ToolStarted(call="c", name="bash", args={"command": "make"}, kind="execute", command="make"))
    out.updates(ToolOutput(call="c", text="a" * TAIL))
    [update] = out.updates(ToolOutput(call="c", text="end"))
    text = update["content"][0]["content"]["text"]
    assert text.endswith("aend") and len(text) == TAIL


def test_a_result_has_its_images_and_as_much_text_as_an_editor_can_show() -> None:
    images = tuple(ImageFile(path=path, media_type="image/png", size=1) for path in ("/i", "/gone"))
    ended = ToolEnded(call="c", name="view", result="x" * (SHOWN + 1), images=images)
    [update] = AcpOutgoing(lambda args: [], load={"/i": b"png"}.get).updates(ended)
    assert [part["content"]["type"] for part in update["content"]] == ["text", "image"]
    assert len(update["content"][0]["content"]["text"]) == SHOWN
