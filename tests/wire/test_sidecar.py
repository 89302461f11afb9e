"""The sidecar protocol: its schemas, what is mended and what is noted."""

import json

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.conversations.sidecar import SAMPLE_EVENTS, SAMPLE_ORDER, SAMPLE_RECEIPT, SAMPLES
from treadle.errors import LocalProtocolError
from treadle.wire.sidecar import connection as connection_module
from treadle.wire.sidecar.connection import (
    TYPES,
    Connection,
    Requirement,
    Requirements,
    Run,
    UnknownEnvelope,
    repaired_line,
    schema,
    unmet,
)
from treadle.wire.sidecar.receipts import ReasonGiven, Receipt, Restricted

RUN = "550e8400-e29b-41d4-a716-446655440000"

HELLO = b'{"t":"hello","contract_version":"abp/v0.1","backend":{"id":"s"},"capabilities":{}}\n'


def host() -> Connection:
    """A host with a running order."""
    connection = Connection("host")
    connection.receive(HELLO)
    connection.send(Run(id=RUN, work_order=SAMPLE_ORDER))
    return connection


def line(**body: object) -> bytes:
    return json.dumps(body).encode() + b"\n"


def event(ref: str = RUN, **body: object) -> bytes:
    return line(t="event", ref_id=ref, event={"ts": "2024-01-15T10:30:00Z", **body})


RESTRICTED = Restricted(restricted=ReasonGiven(reason="r"))


def test_a_note_keeps_its_value_unless_the_line_was_long(monkeypatch: pytest.MonkeyPatch) -> None:
    data = event(type="warning", message="m", strange="x")
    for longest, kept in ((len(data) - 1, "x"), (len(data) - 2, None)):
        monkeypatch.setattr(connection_module, "BIG_LINE", longest)
        connection = host()
        connection.receive(data)
        assert connection.notes[0].value == kept
    monkeypatch.setattr(connection_module, "MAX_NOTES", 2)
    for times, left_out in ((2, 0), (3, 1)):
        connection = host()
        connection.receive(data * times)
        assert (len(connection.notes), connection.notes_left_out) == (2, left_out)
    connection = host()
    connection.receive(event(type="warning", message="x").replace(b'"x"', b'"a\\ud83c"'))
    assert [str(note) for note in connection.notes] == ["line: half a surrogate pair was replaced"]


def test_why_something_may_not_be_sent_is_said() -> None:
    sidecar = Connection("sidecar")
    sidecar.send(SAMPLES[0][0][1])
    for message, why in (
        (SAMPLES[0][0][1], "hello is sent once"),
        (UnknownEnvelope(t="x", body={}), "only what the contract names is sent"),
    ):
        with pytest.raises(LocalProtocolError, match=why):
            sidecar.send(message)  # type: ignore[arg-type]
    wanted = Requirements(required=[Requirement(capability="vision", min_support="native")])
    assert unmet(wanted, {"vision": RESTRICTED}) == ["vision (native is required, the backend has it restricted)"]
    assert unmet(wanted, {"vision": "emulated"}) == ["vision (native is required, the backend has it emulated)"]


JSON = st.recursive(
    st.none() | st.booleans() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON))
def test_half_a_pair_is_replaced_and_nothing_else_changes(tree: dict[str, object]) -> None:
    tree.pop("half", None)
    line = json.dumps({**tree, "half": "a\ud83cb"}, ensure_ascii=True).encode()
    assert json.loads(repaired_line(line)) == {**tree, "half": "a?b"}


"""The begin of each schema's SHA-256: who changes a type of the contract says so here."""


@pytest.mark.parametrize(
    "message", [message for talk in SAMPLES for _, message in talk], ids=lambda it: type(it).__name__
)
def test_every_message_we_write_passes(message: object) -> None:
    jsonschema.validate(msgspec.to_builtins(message), schema("envelope"))


@pytest.mark.parametrize(
    ("name", "good"),
    [("receipt", SAMPLE_RECEIPT), ("work-order", SAMPLE_ORDER), *[("event", event) for event in SAMPLE_EVENTS]],
)
def test_values_pass_their_schema_and_without_a_required_field_they_do_not(name: str, good: msgspec.Struct) -> None:
    tree = msgspec.to_builtins(good)
    jsonschema.validate({**tree, "later": 1}, schema(name))
    field = next(field.name for field in msgspec.structs.fields(good) if field.required)
    del tree[field]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tree, schema(name))


def test_an_unknown_capability_does_not_pass() -> None:
    tree = msgspec.to_builtins(SAMPLE_RECEIPT)
    tree["capabilities"] = {"telepathy": "native"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tree, schema("receipt"))
    assert Receipt is TYPES["receipt"]
