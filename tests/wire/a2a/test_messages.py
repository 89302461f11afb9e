"""Agent cards, and messages in both versions: each writes the same in its own way and reads back what it wrote."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.a2a.messages import (
    METHODS,
    VERSIONS,
    A2aArtifact,
    A2aEvent,
    A2aMessage,
    A2aPart,
    A2aState,
    A2aStatus,
    A2aTask,
    AgentAddress,
    ArtifactUpdate,
    Malformed,
    PushTarget,
    SendParams,
    StatusUpdate,
    Version,
    as_camel,
    card,
    method_of,
    plain,
    push_written,
    read_card,
    read_event,
    read_message,
    read_push,
    read_send,
    read_task,
    send_written,
    version_of,
    written,
)

OURS = card(name="A", description="", url="http://x/", version="7", images=True, push=False, token=True)


def test_our_own_card_leads_to_the_newest_version() -> None:
    found = read_card(OURS)
    assert (found.url, found.version, found.agent_version, found.streaming, found.images) == (
        "http://x/",
        "1.0",
        "7",
        True,
        True,
    )


def test_a_client_of_0_3_finds_what_it_looks_for() -> None:
    old = {name: value for name, value in OURS.items() if name != "supportedInterfaces"}
    assert read_card(old).version == "0.3"
    assert old["securitySchemes"]["token"]["type"] == "http" and old["security"] == [{"token": []}]


def test_a_further_interface_of_0_3_is_found() -> None:
    more = [{"url": "http://y/", "transport": "JSONRPC"}]
    found = read_card({"name": "B", "url": "x:1", "preferredTransport": "GRPC", "additionalInterfaces": more})
    assert (found.url, found.version, found.images) == ("http://y/", "0.3", False)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {},
        {"name": "C"},
        {"name": "C", "supportedInterfaces": [{"url": "h:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"}]},
        {"name": "C", "supportedInterfaces": [{"url": "h", "protocolBinding": "JSONRPC", "protocolVersion": "9.1"}]},
    ],
)
def test_a_card_that_names_no_way_that_we_speak_is_refused(wrong: Any) -> None:
    with pytest.raises(Malformed):
        read_card(wrong)


def test_what_a_card_does_not_say_an_agent_cannot_do() -> None:
    bare = AgentAddress(name="A", url="u", version="1.0")
    assert not bare.streaming and not bare.images and bare.agent_version == ""
    way = {"url": "http://x/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    for told in ({}, {"capabilities": [], "defaultInputModes": "image/png"}, {"capabilities": {"streaming": "yes"}}):
        found = read_card({"name": "A", "supportedInterfaces": [way, 7], **told})
        assert not found.streaming and not found.images and found.agent_version == ""
    assert not read_card({"name": "A", "supportedInterfaces": [way], "defaultInputModes": ["text/plain"]}).images
    unversioned = {"name": "A", "supportedInterfaces": [{"url": "http://x/", "protocolBinding": "JSONRPC"}]}
    assert read_card(unversioned).version == "1.0" and read_card({"name": "A", "url": "u"}).url == "u"


def test_our_card_says_what_is_offered_and_asks_for_a_token_only_where_one_is_needed() -> None:
    assert OURS["capabilities"] == {"streaming": True, "pushNotifications": False} and "securityRequirements" in OURS
    plain = card(name="A", description="d", url="u", version="7", images=False, push=True, token=False)
    assert not plain.keys() & {"security", "securitySchemes", "securityRequirements"}
    assert plain["capabilities"]["pushNotifications"] is True and not read_card(plain).images
    assert (plain["name"], plain["description"], plain["version"], plain["url"]) == ("A", "d", "7", "u")
    assert [way["protocolVersion"] for way in plain["supportedInterfaces"]] == ["1.0", "0.3"]


def test_a_card_that_is_refused_names_the_ways_that_it_offers() -> None:
    more = [{"url": "h:1", "transport": "GRPC"}, 7]
    with pytest.raises(Malformed, match="GRPC 0.2, GRPC 0.2$"):
        read_card(
            {
                "name": "C",
                "url": "h",
                "preferredTransport": "GRPC",
                "additionalInterfaces": more,
                "protocolVersion": "0.2",
            }
        )
    with pytest.raises(Malformed, match="not spoken here: none"):
        read_card({"name": "C", "additionalInterfaces": 7, "supportedInterfaces": 7})
    with pytest.raises(Malformed, match="there is no agent card"):
        read_card({"name": 7, "url": "http://x/"})


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


@given(events, st.sampled_from(VERSIONS))
def test_an_event_is_read_as_it_was_written(event: A2aEvent, version: Version) -> None:
    assert read_event(written(event, version), version) == event


@given(messages.filter(lambda message: message.role == "user"), st.booleans(), st.sampled_from(VERSIONS))
def test_what_is_sent_is_read_as_it_was_written(message: A2aMessage, waits: bool, version: Version) -> None:
    sent = SendParams(message=message, waits=waits)
    assert read_send(send_written(sent, version), version) == sent


@given(anything, st.sampled_from(VERSIONS))
def test_whatever_is_sent_is_read_or_called_malformed(found: Any, version: Version) -> None:
    for read in (read_event, read_send, read_push, read_task):
        try:
            read(found, version)
        except Malformed:
            pass


@pytest.mark.parametrize("version", VERSIONS)
def test_a_webhook_is_read_as_it_was_written(version: Version) -> None:
    target = PushTarget(url="https://x.example/", id="p", token="t", scheme="Bearer", credentials="c")
    assert read_push(push_written("task", target, version), version) == ("task", target)


def test_the_versions_write_states_roles_and_parts_in_their_own_way() -> None:
    message = A2aMessage(id="m", role="user", parts=(A2aPart(text="hi"),))
    task = A2aTask(id="t", context="c", status=A2aStatus(state="input-required", message=message))
    new, old = written(task, "1.0"), written(task, "0.3")
    assert new["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED" and old["status"]["state"] == "input-required"
    assert new["task"]["status"]["message"] == {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    assert old["status"]["message"]["parts"] == [{"kind": "text", "text": "hi"}] and old["kind"] == "task"


def test_only_in_0_3_does_an_update_say_that_it_is_the_last() -> None:
    update = StatusUpdate(task="t", context="c", status=A2aStatus(state="completed"))
    assert plain(update, "0.3")["final"] is True
    assert "final" not in plain(update, "1.0")


@pytest.mark.parametrize(
    ("header", "version"),
    [("", "0.3"), ("0.3", "0.3"), ("0.3.0", "0.3"), ("1.0", "1.0"), (" 1.0.1 ", "1.0"), ("2.0", None), ("x", None)],
)
def test_the_header_names_the_version_and_none_is_0_3(header: str, version: str | None) -> None:
    assert version_of(header) == version


def test_names_of_the_proto_file_are_taken_too_but_not_within_what_is_free() -> None:
    given = {"task_id": "t", "message": {"context_id": "c", "metadata": {"my_key": 1}, "parts": [{"data": {"a_b": 1}}]}}
    assert as_camel(given) == {
        "taskId": "t",
        "message": {"contextId": "c", "metadata": {"my_key": 1}, "parts": [{"data": {"a_b": 1}}]},
    }


def test_every_method_of_0_3_has_one_in_1_0() -> None:
    assert set(METHODS["0.3"].values()) < set(METHODS["1.0"].values())


def test_the_text_of_a_message_is_its_parts_that_are_text() -> None:
    parts_given = (A2aPart(text="a"), A2aPart(url="u"), A2aPart(text="b"))
    assert A2aMessage(id="m", role="user", parts=parts_given).text == "a\nb"
    assert A2aArtifact(id="a", parts=parts_given).text == "ab"
    sent = SendParams(message=A2aMessage(id="m", role="user", parts=parts_given))
    update = ArtifactUpdate(task="t", context="c", artifact=A2aArtifact(id="a", parts=parts_given))
    assert sent.waits and not update.append and not update.last


@pytest.mark.parametrize(
    ("part", "new", "old"),
    [
        (A2aPart(text="", filename="f"), {"text": "", "filename": "f"}, {"kind": "text", "text": ""}),
        (A2aPart(raw=b""), {"raw": ""}, {"kind": "file", "file": {"bytes": ""}}),
        (
            A2aPart(url="u", media_type="m"),
            {"url": "u", "mediaType": "m"},
            {"kind": "file", "file": {"uri": "u", "mimeType": "m"}},
        ),
        (A2aPart(data=[1]), {"data": [1]}, {"kind": "data", "data": {"value": [1]}}),
        (A2aPart(data={"a": 1}), {"data": {"a": 1}}, {"kind": "data", "data": {"a": 1}}),
    ],
)
def test_each_kind_of_part_has_its_form(part: A2aPart, new: Any, old: Any) -> None:
    message = A2aMessage(id="m", role="agent", parts=(part,))
    assert plain(message, "1.0")["parts"] == [new] and plain(message, "0.3")["parts"] == [old]


def test_what_is_empty_is_not_written() -> None:
    message = A2aMessage(id="m", role="agent", parts=(A2aPart(text="x"),))
    assert plain(message, "1.0").keys() == {"messageId", "role", "parts"}
    assert plain(message, "0.3") == {
        "messageId": "m", "role": "agent", "kind": "message", "parts": [{"kind": "text", "text": "x"}],
    }  # fmt: skip
    task = A2aTask(id="t", context="c", status=A2aStatus(state="working"))
    assert plain(task, "1.0") == {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    assert plain(task, "0.3")["kind"] == "task"
    working = StatusUpdate(task="t", context="c", status=task.status, metadata={"a": 1})
    assert plain(working, "0.3")["final"] is False and plain(working, "1.0")["metadata"] == {"a": 1}
    asking = StatusUpdate(task="t", context="c", status=A2aStatus(state="input-required"))
    assert plain(asking, "0.3")["final"] is True and plain(asking, "0.3")["kind"] == "status-update"
    piece = ArtifactUpdate(task="t", context="c", artifact=A2aArtifact(id="a", parts=()), append=True)
    assert plain(piece, "0.3") == {**plain(piece, "1.0"), "kind": "artifact-update"}
    assert plain(piece, "1.0").items() >= {"append": True, "lastChunk": False, "taskId": "t"}.items()
    bare = PushTarget(url="u")
    assert push_written("t", bare, "1.0") == {"taskId": "t", "id": "", "url": "u"}
    signed = PushTarget(url="u", scheme="Bearer")
    assert push_written("t", signed, "1.0")["authentication"] == {"scheme": "Bearer"}
    assert push_written("t", signed, "0.3")["pushNotificationConfig"]["authentication"] == {"schemes": ["Bearer"]}
    assert method_of("1.0", "get") == "GetTask" and method_of("0.3", "get") == "tasks/get"


HI = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


@pytest.mark.parametrize(
    ("read", "found", "words"),
    [
        (read_event, {"other": 1}, "neither a task, a message nor an update"),
        (read_event, {"task": 7}, "task is no object"),
        (read_message, {**HI, "role": "ROLE_BOSS"}, "message.role is 'ROLE_BOSS'"),
        (read_message, {**HI, "parts": []}, "at least one part"),
        (read_message, {**HI, "parts": {}}, "parts is no list"),
        (read_message, {**HI, "messageId": ""}, "messageId is no text"),
        (read_message, {**HI, "contextId": 7}, "contextId is no text"),
        (read_message, {"role": "ROLE_USER", "parts": [{"text": "hi"}]}, "messageId is missing"),
        (read_message, {**HI, "parts": [{"text": "a", "url": "b"}]}, "exactly one of"),
        (read_message, {**HI, "parts": [{}]}, "exactly one of"),
        (read_message, {**HI, "parts": [{"raw": "a"}]}, "part.raw is no base64"),
        (read_message, {**HI, "parts": [{"raw": "a b="}]}, "part.raw is no base64"),
        (read_message, {**HI, "parts": [{"url": ""}]}, "url is no text"),
        (read_send, {"message": {**HI, "role": "ROLE_AGENT"}}, "is from a user"),
        (read_send, {"message": HI, "configuration": {"historyLength": -1}}, "from 0"),
        (read_send, {"message": HI, "configuration": {"historyLength": True}}, "from 0"),
        (read_task, {"id": "t", "status": {"state": "TASK_STATE_LOST"}}, "status.state is 'TASK_STATE_LOST'"),
    ],
)
def test_what_is_malformed_is_named(read: Any, found: Any, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        read(found, "1.0")


def test_what_is_asked_for_beside_a_message_is_read_in_each_versions_words() -> None:
    old = {**HI, "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    for version, message, wait, hurry, push in (
        ("1.0", HI, {"returnImmediately": False}, {"returnImmediately": True}, "taskPushNotificationConfig"),
        ("0.3", old, {"blocking": True}, {"blocking": False}, "pushNotificationConfig"),
    ):
        read = [read_send({"message": message, "configuration": asked}, version) for asked in (wait, hurry)]  # type: ignore[arg-type]
        assert [each.waits for each in read] == [True, False]
        bare = read_send({"message": message}, version)  # type: ignore[arg-type]
        assert bare.waits and bare.history is None and bare.push is None
        configuration = {"historyLength": 0, push: {"url": "u", "authentication": {"schemes": ["Basic"]}}}
        full = read_send({"message": message, "configuration": configuration}, version)  # type: ignore[arg-type]
        assert full.history == 0 and full.push == PushTarget(url="u", scheme="Basic")
    with pytest.raises(Malformed, match="message.role"):
        read_message({**old, "role": "ROLE_USER"}, "0.3")


def test_a_part_of_0_3_is_read_by_its_kind() -> None:
    def read(part: Any) -> A2aPart:
        return read_message({"messageId": "m", "role": "user", "parts": [part]}, "0.3").parts[0]

    file = {"bytes": "aGk=", "uri": None, "name": "f", "mimeType": "image/png", "later": 1}
    assert read({"kind": "file", "file": file}) == A2aPart(raw=b"hi", filename="f", media_type="image/png")
    assert read({"kind": "text", "text": "", "metadata": {}}) == A2aPart(text="")
    for odd in ({"kind": "text"}, {"kind": "sound", "sound": 1}, {"text": "x"}):
        with pytest.raises(Malformed, match="is not known"):
            read(odd)


def test_what_is_nested_too_deeply_to_be_renamed_is_malformed() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Malformed, match="nested too deeply"):
        as_camel({"a": deep})
