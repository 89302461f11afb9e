"""Both versions write the same things, each in its own way, and read back what they wrote."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.a2a import records, versions
from treadle.wire.a2a.versions import METHODS, VERSIONS, Malformed, Version

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
json_objects = st.dictionaries(words, st.one_of(st.none(), st.booleans(), st.integers(), words), max_size=2)
parts = st.one_of(
    words.map(lambda text: records.A2aPart(text=text)),
    st.binary(max_size=9).map(lambda raw: records.A2aPart(raw=raw, filename="f", media_type="image/png")),
    words.map(lambda url: records.A2aPart(url=url)),
    json_objects.map(lambda data: records.A2aPart(data=data)),
)
some_parts = st.lists(parts, min_size=1, max_size=3).map(tuple)
messages = st.builds(
    records.A2aMessage, id=words, role=st.sampled_from(["user", "agent"]), parts=some_parts, context=words, task=words
)
statuses = st.builds(
    records.A2aStatus, state=st.sampled_from(get_args(records.A2aState)), message=st.none() | messages, timestamp=words
)
artifacts = st.builds(records.A2aArtifact, id=words, parts=some_parts, name=words)
events: st.SearchStrategy[records.A2aEvent] = st.one_of(
    messages,
    st.builds(
        records.A2aTask,
        id=words,
        context=words,
        status=statuses,
        artifacts=st.lists(artifacts, max_size=2).map(tuple),
        history=st.lists(messages, max_size=2).map(tuple),
    ),
    st.builds(records.StatusUpdate, task=words, context=words, status=statuses),
    st.builds(
        records.ArtifactUpdate, task=words, context=words, artifact=artifacts, append=st.booleans(), last=st.booleans()
    ),
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


@given(events, st.sampled_from(VERSIONS))
def test_an_event_is_read_as_it_was_written(event: records.A2aEvent, version: Version) -> None:
    assert versions.read_event(versions.written(event, version), version) == event


@given(messages.filter(lambda message: message.role == "user"), st.booleans(), st.sampled_from(VERSIONS))
def test_what_is_sent_is_read_as_it_was_written(message: records.A2aMessage, waits: bool, version: Version) -> None:
    sent = records.SendParams(message=message, waits=waits)
    assert versions.read_send(versions.send_written(sent, version), version) == sent


@given(anything, st.sampled_from(VERSIONS))
def test_whatever_is_sent_is_read_or_called_malformed(found: Any, version: Version) -> None:
    for read in (versions.read_event, versions.read_send, versions.read_push, versions.read_task):
        try:
            read(found, version)
        except Malformed:
            pass


@pytest.mark.parametrize("version", VERSIONS)
def test_a_webhook_is_read_as_it_was_written(version: Version) -> None:
    target = records.PushTarget(url="https://x.example/", id="p", token="t", scheme="Bearer", credentials="c")
    assert versions.read_push(versions.push_written("task", target, version), version) == ("task", target)


def test_the_versions_write_states_roles_and_parts_in_their_own_way() -> None:
    message = records.A2aMessage(id="m", role="user", parts=(records.A2aPart(text="hi"),))
    task = records.A2aTask(id="t", context="c", status=records.A2aStatus(state="input-required", message=message))
    new, old = versions.written(task, "1.0"), versions.written(task, "0.3")
    assert new["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED" and old["status"]["state"] == "input-required"
    assert new["task"]["status"]["message"] == {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    assert old["status"]["message"]["parts"] == [{"kind": "text", "text": "hi"}] and old["kind"] == "task"


def test_only_in_0_3_does_an_update_say_that_it_is_the_last() -> None:
    update = records.StatusUpdate(task="t", context="c", status=records.A2aStatus(state="completed"))
    assert versions.plain(update, "0.3")["final"] is True
    assert "final" not in versions.plain(update, "1.0")


@pytest.mark.parametrize(
    ("header", "version"),
    [("", "0.3"), ("0.3", "0.3"), ("0.3.0", "0.3"), ("1.0", "1.0"), (" 1.0.1 ", "1.0"), ("2.0", None), ("x", None)],
)
def test_the_header_names_the_version_and_none_is_0_3(header: str, version: str | None) -> None:
    assert versions.version_of(header) == version


def test_names_of_the_proto_file_are_taken_too_but_not_within_what_is_free() -> None:
    given = {"task_id": "t", "message": {"context_id": "c", "metadata": {"my_key": 1}, "parts": [{"data": {"a_b": 1}}]}}
    assert versions.as_camel(given) == {
        "taskId": "t",
        "message": {"contextId": "c", "metadata": {"my_key": 1}, "parts": [{"data": {"a_b": 1}}]},
    }


def test_every_method_of_0_3_has_one_in_1_0() -> None:
    assert set(METHODS["0.3"].values()) < set(METHODS["1.0"].values())
