"""Messages of A2A read back what they wrote; what is odd is malformed."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.a2a.messages import (
    A2aArtifact,
    A2aEvent,
    A2aMessage,
    A2aPart,
    A2aState,
    A2aStatus,
    A2aTask,
    ArtifactUpdate,
    Malformed,
    SendConfiguration,
    SendParams,
    StatusUpdate,
    as_camel,
    plain,
    read_event,
    read_send,
    read_task,
    written,
)

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


json_objects = st.dictionaries(words, st.one_of(st.none(), st.booleans(), st.integers(), words), max_size=2)


parts = st.one_of(
    words.map(lambda text: A2aPart(text=text)),
    st.binary(max_size=9).map(lambda raw: A2aPart(raw=raw, filename="f", media_type="image/png")),
    words.map(lambda url: A2aPart(url=url)),
    json_objects.map(lambda data: A2aPart(data=data)),
)


some_parts = st.lists(parts, min_size=1, max_size=3).map(tuple)


messages = st.builds(
    A2aMessage, id=words, role=st.sampled_from(["user", "agent"]), parts=some_parts, context=words, task=words
)


statuses = st.builds(
    A2aStatus, state=st.sampled_from(get_args(A2aState)), message=st.none() | messages, timestamp=words
)


artifacts = st.builds(A2aArtifact, id=words, parts=some_parts, name=words)


events: st.SearchStrategy[A2aEvent] = st.one_of(
    messages,
    st.builds(
        A2aTask,
        id=words,
        context=words,
        status=statuses,
        artifacts=st.lists(artifacts, max_size=2).map(tuple),
        history=st.lists(messages, max_size=2).map(tuple),
    ),
    st.builds(StatusUpdate, task=words, context=words, status=statuses),
    st.builds(ArtifactUpdate, task=words, context=words, artifact=artifacts, append=st.booleans(), last=st.booleans()),
)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | words | st.sampled_from(["ROLE_USER", "user", "text", "file"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["message", "role", "parts", "messageId", "kind", "text", "raw", "file", "status", "state"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(events)
def test_an_event_is_read_as_it_was_written(event: A2aEvent) -> None:
    assert read_event(written(event)) == event


@given(messages.filter(lambda message: message.role == "user"), st.booleans())
def test_what_is_sent_is_read_as_it_was_written(message: A2aMessage, at_once: bool) -> None:
    sent = SendParams(message=message, configuration=SendConfiguration(return_immediately=at_once))
    assert read_send(plain(sent)) == sent


@given(anything)
def test_whatever_is_sent_is_read_or_called_malformed(found: Any) -> None:
    for read in (read_event, read_send, read_task):
        try:
            read(found)
        except Malformed:
            pass


def test_what_is_nested_too_deeply_to_be_renamed_is_malformed() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Malformed, match="nested too deeply"):
        as_camel({"a": deep})
