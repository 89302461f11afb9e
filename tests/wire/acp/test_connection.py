"""Which side may call what, content blocks as a person reads them, and MCP servers as a list and as a table."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import LocalProtocolError
from treadle.wire.acp.connection import (
    AGENT_METHODS,
    CLIENT_METHODS,
    Connection,
    as_list,
    as_table,
    diffs_in,
    image_block,
    prompt_images,
    prompt_text,
    text_block,
    text_of,
    texts_in,
    transport,
)
from treadle.wire.common.rpc import RpcCall


@pytest.mark.parametrize(("role", "foreign"), [("client", AGENT_METHODS), ("agent", CLIENT_METHODS)])
def test_neither_side_calls_what_belongs_to_the_other(role: str, foreign: frozenset[str]) -> None:
    connection = Connection(role)
    for method in foreign - {"initialize"}:
        with pytest.raises(LocalProtocolError):
            connection.send(RpcCall(id=1, method=method))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "content", "resource", "uri", "name", "path"]), inner, max_size=4
        )
    ),
)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (text_block("é"), "é"),
        ({"type": "resource_link", "name": "a.py", "uri": "file:///a.py"}, "[a.py: file:///a.py]"),
        ({"type": "resource_link", "uri": "file:///b"}, "[file: file:///b]"),
        ({"type": "resource", "resource": {"uri": "file:///a.py", "text": "x = 1"}}, "x = 1"),
        ({"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "AA=="}}, "[file:///a.bin]"),
        ({"type": "image", "data": "AA==", "mimeType": "image/png"}, "[image]"),
        ({"type": "text", "text": 3}, ""),
        ("text", ""),
    ],
)
def test_a_block_is_read_as_text(block: Any, text: str) -> None:
    assert text_of(block) == text


def test_a_prompt_names_the_files_that_come_with_it() -> None:
    blocks = [
        text_block("Look at this:"),
        {"type": "resource", "resource": {"uri": "file:///a.py", "text": "x = 1"}},
        {"type": "image", "data": "aGk="},
        {"type": "image"},
        {"type": "audio"},
    ]
    assert prompt_text(blocks) == 'Look at this:\n<file uri="file:///a.py">\nx = 1\n</file>\n[audio]'
    assert prompt_images(blocks) == (b"hi", b"") and prompt_images("no list") == ()


def test_the_content_of_a_tool_is_its_texts_and_its_diffs() -> None:
    diff = {"type": "diff", "path": "/a", "newText": "x"}
    content = [{"type": "content", "content": text_block("out")}, diff, {"type": "terminal"}, {"type": "diff"}]
    assert texts_in(content) == "out" and diffs_in(content) == [diff]


@given(JSON)
def test_anything_can_be_read(value: Any) -> None:
    assert isinstance(text_of(value), str) and isinstance(prompt_text(value), str)
    assert isinstance(texts_in(value), str) and isinstance(diffs_in(value), list)


def test_what_is_not_of_the_right_kind_is_left_out() -> None:
    assert text_of({"type": 7}) == "" and text_of({"type": "resource"}) == "[]"
    embedded = {"type": "resource", "resource": {"uri": 7, "text": "x"}}
    assert prompt_text([embedded, "odd", {"type": "resource", "resource": 7}]) == '<file uri="">\nx\n</file>\n[]'
    assert prompt_images([{"type": "audio", "data": "aGk="}, "odd"]) == ()
    assert (
        texts_in(
            [
                {"type": "content", "content": text_block("a")},
                {"type": "content"},
                "odd",
                {"type": "content", "content": text_block("b")},
            ]
        )
        == "a\nb"
    )
    assert diffs_in([{"type": "content", "path": "/a"}, {"type": "diff", "path": 7}, "odd"]) == [] and diffs_in(7) == []
    shown = image_block(b"GIF89a")
    assert shown == {"type": "image", "data": "R0lGODlh", "mimeType": "image/gif"}


NAMES = st.text(min_size=1)

TABLES = st.dictionaries(st.text(), st.text())

STDIO = st.fixed_dictionaries({"command": NAMES, "args": st.lists(st.text()), "env": TABLES})

REMOTE = st.fixed_dictionaries({"type": st.sampled_from(["http", "sse"]), "url": NAMES, "headers": TABLES})


@given(st.dictionaries(NAMES, STDIO | REMOTE))
def test_a_list_made_of_a_table_gives_the_table_back(table: dict[str, dict[str, Any]]) -> None:
    assert as_table(as_list(table)) == table


@given(st.recursive(st.none() | st.text() | st.integers(), lambda some: st.lists(some) | st.dictionaries(NAMES, some)))
def test_whatever_a_client_sends_is_a_table_of_names(told: Any) -> None:
    assert all(name and isinstance(entry, dict) for name, entry in as_table(told).items())


def test_the_way_to_a_server_has_one_name_whatever_other_programs_call_it() -> None:
    assert transport({"command": "x"}) == "stdio"
    assert transport({"url": "u"}) == transport({"url": "u", "type": "streamable-http"}) == "http"
    assert transport({"url": "u", "type": "sse"}) == "sse"


def test_what_is_missing_is_empty_and_what_is_odd_is_left_out() -> None:
    assert as_list({"a": {}, "b": {"url": "u"}}) == [
        {"name": "a", "command": "", "args": [], "env": []},
        {"type": "http", "name": "b", "url": "u", "headers": []},
    ]
    given = [{"name": "a", "command": "x", "env": {"A": "b"}, "later": 1}, {"name": ""}, {"name": 7}, "odd"]
    assert as_table(given) == {"a": {"command": "x", "env": {"A": "b"}}}
    assert as_table([{"name": "a", "env": ["odd", {"name": "A", "value": "b"}], "headers": 7}]) == {
        "a": {"env": {"A": "b"}, "headers": {}}
    }
    assert transport({"type": "sse"}) == "stdio"
