"""Prompts that are taken back, arguments that come back, changes that can be undone, ids that stay."""

import difflib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import events
from treadle.errors import ConfigError, InvalidJson
from treadle.wire.oneshot import connection as wire
from treadle.wire.oneshot.arguments import subagent, to_ours, to_theirs
from treadle.wire.oneshot.connection import Connection, LineIds
from treadle.wire.oneshot.content import hunks, undone


@given(
    st.sampled_from(["bash", "task", "grep", "mine"]),
    st.dictionaries(st.text(), st.integers(1) | st.text("a", min_size=1)),
)
def test_any_other_argument_comes_back_as_it_was(tool: str, given: dict[str, Any]) -> None:
    theirs = {"-i", "-C", "head_limit", "run_in_background", "subagent_type", "timeout", "outside"}
    plain = {name: value for name, value in given.items() if name not in theirs | {"dangerouslyDisableSandbox"}}
    assert to_ours(tool, to_theirs(tool, plain)) == plain


PROMPT = b'{"type":"user","message":{"role":"user","content":"go"}}\n'


@pytest.mark.parametrize("line", [b"{", b"[]", b'"\xff"', b"[" * 100_000])
def test_a_line_that_is_no_record_is_an_error_in_its_place_and_the_next_counts(line: bytes) -> None:
    error, prompt = Connection("run").receive(line + b"\n\n" + PROMPT)
    assert isinstance(error, InvalidJson) and prompt["type"] == "user"


TEXTS = st.lists(st.text(alphabet="ab", max_size=2), min_size=1, max_size=12).map(lambda lines: "\n".join(lines) + "\n")


def diff(old: str, new: str) -> str:
    return "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True)))


@given(TEXTS, TEXTS)
def test_a_change_can_be_undone_from_its_hunks(old: str, new: str) -> None:
    assert undone(new, hunks(diff(old, new))) == old


REPLY = wire.MessageHead(session_id="s1", id="m1", model="model")


def test_a_line_has_the_head_of_its_message_and_the_same_id_each_time_it_is_made() -> None:
    def lines() -> list[Any]:
        head = wire.MessageHead(session_id="s1", id="m1", model="model", parent="p", ids=LineIds())
        said: list[Any] = [events.Message(text="a", turn="t"), events.Message(text="a", kind="thinking", turn="t")]
        said += [events.ToolStarted(call="c", name="x", kind="other", turn="t")]
        return [head.line(each) for each in (*said, events.ToolEnded(call="c", name="x", result="", turn="t"))]

    first, again = lines(), lines()
    assert [line["uuid"] for line in first] == [line["uuid"] for line in again]
    assert len({line["uuid"] for line in first}) == 4
    message = first[0]["message"]
    assert (message["id"], message["model"], message["usage"]) == ("m1", "model", wire.usage())
    assert {line["parent_tool_use_id"] for line in first} == {"p"} and first[0]["timestamp"]
    alone = events.Message(text="a", turn="t")
    assert REPLY.line(alone)["uuid"] != REPLY.line(alone)["uuid"]  # type: ignore[index]


@pytest.mark.parametrize("key", ["mcpServers", "permissionMode", "memory", "background", "hooks", "isolation"])
def test_a_subagent_that_asks_for_what_we_do_not_have_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        subagent("odd", {"description": "d", "prompt": "p", key: ["x"]})
