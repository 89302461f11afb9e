"""The sidecar protocol: its schemas, who may send what when, and how lines that are not quite right are read."""

import json

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from treadle.errors import InvalidJson, LocalProtocolError, RemoteProtocolError, VersionMismatch, Violation
from treadle.testing.conversations.sidecar import SAMPLE_EVENTS, SAMPLE_ORDER, SAMPLE_RECEIPT, SAMPLES
from treadle.wire.sidecar import connection as connection_module
from treadle.wire.sidecar.connection import (
    TYPES,
    Connection,
    Fatal,
    Final,
    Pong,
    Requirement,
    Requirements,
    Run,
    RunEvent,
    SidecarHello,
    UnknownEnvelope,
    compatible,
    repaired_line,
    repeated_field,
    repeated_name,
    satisfies,
    schema,
    unmet,
    unusable,
)
from treadle.wire.sidecar.events import CODES, contract_code
from treadle.wire.sidecar.receipts import ERROR_CODES, ReasonGiven, Receipt, Restricted

RUN = "550e8400-e29b-41d4-a716-446655440000"

OTHER = "550e8400-e29b-41d4-a716-446655440001"

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


RECEIPT = msgspec.to_builtins(SAMPLE_RECEIPT)


def final(**changes: object) -> bytes:
    """A `final` whose receipt differs in these fields; None removes a field."""
    receipt = {name: value for name, value in {**RECEIPT, **changes}.items() if value is not None}
    return line(t="final", ref_id=RUN, receipt=receipt)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\n", InvalidJson),
        (b"starting up...\n", InvalidJson),
        (b"\xef\xbb\xbf" + HELLO, InvalidJson),
        (b"[]\n", Violation),
        (b"{}\n", Violation),
        (event(type="warning", message="m"), Violation),
        (line(t="fatal", error="no key"), Violation),
        (line(t="later", x=1), Violation),
        (HELLO.replace(b"v0.1", b"v1.0"), VersionMismatch),
        (HELLO.replace(b"abp/v0.1", b"lol"), VersionMismatch),
    ],
)
def test_only_a_compatible_hello_may_come_first(data: bytes, kind: type[Exception]) -> None:
    connection = Connection("host")
    found = connection.receive(data)
    assert [type(item) for item in found] == [kind]
    assert connection.state == Connection.START


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"oops\n", InvalidJson),
        (b"\xff\xfe\n", InvalidJson),
        (b"[" * 5000 + b"\n", InvalidJson),
        (event(OTHER, type="warning", message="m"), Violation),
        (line(t="final", ref_id=OTHER, receipt={}), Violation),
        (line(t="fatal", ref_id=OTHER, error="x"), Violation),
        (line(t="event", event={"ts": "T", "type": "warning", "message": "m"}), Violation),
        (line(t="ping", seq=1), Violation),
        (line(t="run", id=RUN, work_order=msgspec.to_builtins(SAMPLE_ORDER)), Violation),
        (line(t="pong"), Violation),
        (line(t="final", ref_id=RUN), Violation),
        (line(t="final", ref_id=RUN, receipt={}), Violation),
        (line(t="final", ref_id=RUN, receipt="done"), Violation),
        (final(outcome=None), Violation),
        (final(outcome="splendid"), Violation),
        (final(meta={}), Violation),
        (final(verification={}), Violation),
        (final(meta={**RECEIPT["meta"], "run_id": "run-1"}), Violation),
        (final(meta={**RECEIPT["meta"], "started_at": "yesterday"}), Violation),
        (final().replace(b'{"t": "final"', b'{"t": "event", "t": "final"'), Violation),
        (b'{"t":"event","ref_id":"\\ud800","event":NaN}\n', InvalidJson),
    ],
)
def test_what_may_not_be_said_during_a_run_is_an_error_in_its_place(data: bytes, kind: type[Exception]) -> None:
    connection = host()
    good = event(type="warning", message="m")
    found = connection.receive(good + data + good)
    assert [type(item) for item in found] == [RunEvent, kind, RunEvent]
    assert connection.state == "running"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\n  \n", None),
        (HELLO, SidecarHello),
        (line(t="pong", seq=9), Pong),
        (line(t="later", x=1), UnknownEnvelope),
        (final(stream_equivalent=True, tool_calls=[]), Final),
        (final(mode=None, receipt_sha256="0" * 64, usage={"input_tokens": -1}), Final),
        (final(trace=[{"type": "usage"}, "nonsense"], capabilities={"telepathy": "native"}), Final),
        (event(type="warning", message="x").replace(b'"x"', b'"a\\ud83c"'), RunEvent),
        (line(t="fatal", error="x", error_code="brand_new"), Fatal),
        (line(t="fatal", ref_id=None, error="x"), Fatal),
    ],
)
def test_what_real_sidecars_do_is_taken(data: bytes, message: type | None) -> None:
    found = host().receive(data)
    assert [type(item) for item in found] == ([message] if message else [])


def test_strange_things_are_noted_and_nothing_is_lost() -> None:
    connection = Connection("host")
    (hello,) = connection.receive(
        line(
            t="hello",
            contract_version="abp/v0.2",
            backend={"id": "s", "colour": "red"},
            capabilities={"streaming": "native", "telepathy": "native"},
            mode=None,
        )
    )
    assert isinstance(hello, SidecarHello) and hello.mode == "mapped" and hello.capabilities == {"streaming": "native"}
    assert {str(note) for note in connection.notes} == {
        "hello.backend.colour: not in the contract",
        "hello.capabilities.telepathy: unknown capability",
    }


def test_an_object_on_two_lines_is_none() -> None:
    whole = event(type="warning", message="m")
    found = host().receive(whole + whole.replace(b', "message"', b'\n, "message"') + whole)
    assert [type(item) for item in found] == [RunEvent, InvalidJson, InvalidJson, RunEvent]


def test_crlf_and_spaces_are_white_space() -> None:
    assert [type(item) for item in host().receive(b'  {"t" : "pong", "seq" : 1}  \r\n')] == [Pong]


def test_a_last_line_without_its_newline_counts_and_half_a_line_does_not() -> None:
    connection = host()
    assert connection.receive(final()[:-1]) == []
    assert [type(item) for item in connection.end()] == [Final]
    connection = host()
    connection.receive(b'{"t":"final","ref')
    with pytest.raises(InvalidJson):
        connection.end()


def test_a_sidecar_takes_a_second_run_during_a_run_and_answers_in_order() -> None:
    sidecar = Connection("sidecar")
    sidecar.send(SAMPLES[0][0][1])
    peer = Connection("host")
    peer.receive(HELLO)
    sidecar.receive(peer.send(Run(id=RUN, work_order=SAMPLE_ORDER)))
    sidecar.receive(peer.send(Run(id=OTHER, work_order=SAMPLE_ORDER)))
    with pytest.raises(LocalProtocolError):
        sidecar.send(Final(ref_id=OTHER, receipt=SAMPLE_RECEIPT))
    peer.receive(sidecar.send(Final(ref_id=RUN, receipt=SAMPLE_RECEIPT)))
    assert (peer.state, sidecar.state) == ("running", "running")
    peer.receive(sidecar.send(Final(ref_id=OTHER, receipt=SAMPLE_RECEIPT)))
    assert (peer.state, sidecar.state) == ("idle", "idle")


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("abp/v0.1", True),
        ("abp/v0.2", True),
        ("abp/v1.0", False),
        ("abp/v0", False),
        ("v0.1", False),
        ("abp/v0.1x", False),
        ("", False),
    ],
)
def test_versions_of_one_major_number_fit_together(version: str, fits: bool) -> None:
    assert compatible(version) is fits


RESTRICTED = Restricted(restricted=ReasonGiven(reason="r"))


@pytest.mark.parametrize(
    ("level", "native", "emulated", "anything"),
    [
        ("native", True, True, True),
        ("emulated", False, True, True),
        (RESTRICTED, False, True, True),
        ("unsupported", False, False, True),
        (None, False, False, False),
    ],
)
def test_a_support_level_satisfies_what_it_should(level: object, native: bool, emulated: bool, anything: bool) -> None:
    assert (satisfies(level, "native"), satisfies(level, "emulated"), satisfies(level, "any")) == (
        native,
        emulated,
        anything,
    )  # type: ignore[arg-type]


def test_what_is_missing_is_named() -> None:
    wanted = Requirements(required=[Requirement(capability="vision", min_support="native")])
    assert unmet(wanted, {"vision": "native"}) == []
    assert unmet(wanted, {}) == ["vision (native is required, the backend does not name it)"]
    assert "emulated" in unmet(wanted, {"vision": "emulated"})[0]


def refused(data: bytes, connection: Connection | None = None) -> RemoteProtocolError:
    [error] = (connection or host()).receive(data)
    assert isinstance(error, RemoteProtocolError)
    return error


def test_an_error_says_what_was_wrong_and_shows_the_line() -> None:
    error = refused(b"starting up" + b"." * 300 + b"\n")
    assert error.message.startswith("not JSON: 'starting up...") and len(error.details["line"]) == 200
    error = refused(line(t="run", id="r7", work_order=7), Connection("sidecar"))
    assert error.message.startswith("a line lacks what it must contain: ") and error.details["id"] == "r7"
    assert "id" not in refused(line(t="pong", id=7)).details and "error_code" not in refused(line(t="pong")).details
    assert "it is not an object with a string `t`" in refused(b'{"t":7}\n').message
    assert "it says `t` twice" in refused(final(x=1).replace(b'{"t": "final"', b'{"t": "event", "t": "final"')).message
    error = refused(final(outcome=None))
    assert "its receipt is not valid: final.receipt.outcome: missing" in error.message
    assert error.details["error_code"] == "contract_invalid_receipt"
    error = refused(final(meta={**RECEIPT["meta"], "run_id": "run-1"}))
    assert error.details["error_code"] == "contract_invalid_receipt" and error.details["message"] == "final"
    error = refused(line(t="final", ref_id=OTHER, receipt=RECEIPT))
    assert error.message == f"ref_id {OTHER!r} is not the run under way, {RUN!r}" and "error_code" not in error.details
    error = refused(line(t="fatal", ref_id=OTHER, error="no key"))
    assert "is not the run under way" in error.message and error.details["message"] == "fatal: no key"


def test_a_hello_must_say_who_it_is_and_a_version_that_fits() -> None:
    for lacking in ({"backend": {"id": "s"}}, {"capabilities": {}}, {"backend": {}, "capabilities": {}}):
        error = refused(line(t="hello", contract_version="abp/v0.1", **lacking), Connection("host"))
        assert isinstance(error, Violation) and "hello must say who it is and what it can: hello." in error.message
    error = refused(HELLO.replace(b"v0.1", b"v1.0"), Connection("host"))
    assert error.message == "the sidecar speaks 'abp/v1.0' and we speak 'abp/v0.1'"
    assert error.hint == "versions must have the same major number"
    assert refused(line(t="later"), Connection("host")).message == "the first line must be hello, not later"


def test_what_is_blank_in_a_trace_or_said_of_no_run_is_taken() -> None:
    connection = host()
    [taken] = connection.receive(final(trace=[{"type": "warning"}]))
    assert isinstance(taken, Final) and connection.state == "idle" and not connection.runs
    assert {str(note) for note in connection.notes} == {
        "final.receipt.trace[0].ts: missing",
        "final.receipt.trace[0].message: missing",
    }
    [taken] = connection.receive(line(t="fatal", ref_id=OTHER, error="x"))
    assert isinstance(taken, Fatal), "with no run under way it is about the program"
    assert connection.receive(b" ") == [] and connection.end() == []


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


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b'{"t":"event","t":"final"}', "t"),
        (b'{"t":"event","event":{"a":1,"a":2}}', None),
        (b'{"t":"event","x":[{"t":1}],"y":{"t":2}}', None),
        (b'{"\\u0074":1,"t":2}', "t"),
        (b'{"first":1,"t":2,"t":3}', "t"),
        (b"[1]", None),
    ],
)
def test_only_the_outermost_object_may_not_say_a_name_twice(line: bytes, name: str | None) -> None:
    assert repeated_field(line) == name


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b'{"a":{"b":[{"c":1,"c":2}]}}', "c"),
        (b'{"a":1,"a":1}', "a"),
        (b'{"first":1,"a":1,"a":2}', "a"),
        (b'{"a":{"b":1},"b":[]}', None),
        (b"[]", None),
    ],
)
def test_a_name_that_is_there_twice_is_found_at_any_depth(data: bytes, name: str | None) -> None:
    assert repeated_name(data) == name


def test_a_number_of_too_many_digits_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        repeated_field(b'{"n":' + b"9" * 5000 + b"}")


@given(st.dictionaries(st.text(), JSON))
def test_half_a_pair_is_replaced_and_nothing_else_changes(tree: dict[str, object]) -> None:
    tree.pop("half", None)
    line = json.dumps({**tree, "half": "a\ud83cb"}, ensure_ascii=True).encode()
    assert json.loads(repaired_line(line)) == {**tree, "half": "a?b"}


@pytest.mark.parametrize("line", [b'{"a":1}', b'{"a":"\\ud83c","n":NaN}', b'{"a":"\\ud83c"', b'"\\\\ud83c"'])
def test_what_is_not_half_a_pair_is_not_mended(line: bytes) -> None:
    with pytest.raises(ValueError):
        repaired_line(line)


def test_a_receipt_needs_ids_and_times_that_can_be_read() -> None:
    meta = SAMPLE_RECEIPT.meta
    assert unusable(meta) is None
    for change in ({"run_id": "run-1"}, {"work_order_id": ""}, {"started_at": "soon"}, {"finished_at": "9999"}):
        assert "its receipt is not valid" in (unusable(replace(meta, **change)) or "")


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


def test_a_peers_own_code_is_the_better_one() -> None:
    assert contract_code("peer_fatal", {"error_code": "backend_auth_failed"}) == "backend_auth_failed"
    assert contract_code("peer_fatal", {"error_code": "made_up"}) is None
    assert contract_code("timeout") == "backend_timeout"
    assert set(CODES.values()) <= set(ERROR_CODES)
