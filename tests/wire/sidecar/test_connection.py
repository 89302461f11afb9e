"""The sidecar protocol: exact lines, who may send what when, and how lines that are not quite right are read."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import InvalidJson, LineTooLong, LocalProtocolError, RemoteProtocolError, VersionMismatch, Violation
from treadle.testing.conversations.sidecar import SAMPLE_EVENTS, SAMPLE_ORDER, SAMPLE_RECEIPT, SAMPLES
from treadle.wire.sidecar import connection as connection_module
from treadle.wire.sidecar.connection import (
    CancelRun,
    Connection,
    Fatal,
    Final,
    Ping,
    Pong,
    Requirement,
    Requirements,
    Run,
    RunEvent,
    SidecarHello,
    UnknownEnvelope,
    compatible,
    satisfies,
    unmet,
)
from treadle.wire.sidecar.receipts import CAPABILITIES, ERROR_CODES, ReasonGiven, Restricted, WarningGiven

RUN = "550e8400-e29b-41d4-a716-446655440000"
OTHER = "550e8400-e29b-41d4-a716-446655440001"
HELLO = b'{"t":"hello","contract_version":"abp/v0.1","backend":{"id":"s"},"capabilities":{}}\n'

GOLDEN = [
    '{"t":"hello","contract_version":"abp/v0.1","backend":{"id":"my-sidecar","backend_version":"1.0.0",'
    '"adapter_version":null},"capabilities":{"streaming":"native","tool_read":"emulated"},"mode":"mapped"}',
    '{"t":"run","id":"550e8400-e29b-41d4-a716-446655440000","work_order":{"id":"00000000-0000-4000-8000-000000000002",'
    '"task":"fix the failing test","lane":"patch_first","workspace":{"root":".","mode":"staged","include":["src/**"],'
    '"exclude":["target/**"]},"context":{"files":["README.md"],"snippets":[{"name":"hint",'
    '"content":"look at tokens"}]},'
    '"policy":{"allowed_tools":["read"],"disallowed_tools":["bash"],"deny_read":["**/.env"],"deny_write":["**/.git/**"],'
    '"allow_network":["*.example.com"],"deny_network":["evil.example.com"],"require_approval_for":["write"]},'
    '"requirements":{"required":[{"capability":"tool_read","min_support":"native"}]},"config":{"model":"m-1",'
    '"vendor":{"abp":{"mode":"mapped"}},"env":{"A":"b"},"max_budget_usd":1.5,"max_turns":8}}}',
    '{"t":"event","ref_id":"R","event":{"type":"run_started","ts":"T","message":"starting"}}',
    '{"t":"event","ref_id":"R","event":{"type":"assistant_delta","ts":"T","text":"Hel"}}',
    '{"t":"event","ref_id":"R","event":{"type":"assistant_message","ts":"T","text":"Hello"}}',
    '{"t":"event","ref_id":"R","event":{"type":"tool_call","ts":"T","tool_name":"read","input":{"path":"a.py"},'
    '"tool_use_id":"c1","parent_tool_use_id":null}}',
    '{"t":"event","ref_id":"R","event":{"type":"tool_result","ts":"T","tool_name":"read","output":"x = 1",'
    '"is_error":false,"tool_use_id":"c1"}}',
    '{"t":"event","ref_id":"R","event":{"type":"file_changed","ts":"T","path":"a.py","summary":"modified"}}',
    '{"t":"event","ref_id":"R","event":{"type":"command_executed","ts":"T","command":"make test","exit_code":0,'
    '"output_preview":"ok"}}',
    '{"t":"event","ref_id":"R","event":{"type":"warning","ts":"T","ext":{"raw_message":{"n":1}},"message":"slow"}}',
    '{"t":"event","ref_id":"R","event":{"type":"error","ts":"T","message":"rate limited",'
    '"error_code":"backend_rate_limited"}}',
    '{"t":"event","ref_id":"R","event":{"type":"run_completed","ts":"T","message":"done"}}',
    '{"t":"ping","seq":1}',
    '{"t":"pong","seq":1}',
    '{"t":"final","ref_id":"R","receipt":{"meta":{"run_id":"R","work_order_id":"00000000-0000-4000-8000-000000000002",'
    '"contract_version":"abp/v0.1","started_at":"T","finished_at":"T","duration_ms":0},"backend":{"id":"my-sidecar",'
    '"backend_version":"1.0.0","adapter_version":null},"capabilities":{"streaming":"native",'
    '"tool_read":{"restricted":{"reason":"small files"}}},"mode":"mapped","usage_raw":{"prompt_tokens":3},'
    '"usage":{"input_tokens":3,"output_tokens":4,"cache_read_tokens":null,"cache_write_tokens":null,'
    '"request_units":null,"estimated_cost_usd":0.5},"trace":[{"type":"run_started","ts":"T","message":"starting"},'
    '{"type":"assistant_delta","ts":"T","text":"Hel"}],"artifacts":[{"kind":"patch","path":"out.patch"}],'
    '"verification":{"harness_ok":true,"git_diff":"+x","git_status":"M a.py"},"outcome":"complete",'
    '"receipt_sha256":null}}',
]
GOLDEN_SECOND = [
    '{"t":"cancel","ref_id":"R","reason":"user requested"}',
    '{"t":"fatal","ref_id":"R","error":"stopped","error_code":"internal"}',
]


def golden(line: str) -> dict[str, object]:
    return json.loads(line.replace('"R"', f'"{RUN}"').replace('"T"', '"2024-01-15T10:30:00Z"'))


def said(conversation: list[tuple[str, object]]) -> list[dict[str, object]]:
    ends = {role: Connection(role) for role in ("host", "sidecar")}
    lines = []
    for role, message in conversation:
        data = ends[role].send(message)  # type: ignore[arg-type]
        ends["sidecar" if role == "host" else "host"].receive(data)
        lines.append(json.loads(data))
    return lines


def test_every_envelope_and_event_is_written_exactly_so() -> None:
    assert said(SAMPLES[0]) == [golden(line) for line in GOLDEN]
    assert said(SAMPLES[1])[2:4] == [golden(line) for line in GOLDEN_SECOND]


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


def test_a_fatal_instead_of_hello_is_refused_in_its_own_words() -> None:
    (error,) = Connection("host").receive(line(t="fatal", error="ANTHROPIC_API_KEY not set"))
    assert "ANTHROPIC_API_KEY not set" in str(error)


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


def test_an_unknown_event_arrives_as_a_warning_with_the_original() -> None:
    (found,) = host().receive(event(type="usage", input_tokens=3))
    assert isinstance(found, RunEvent) and isinstance(found.event, WarningGiven)
    assert found.event.ext["unknown_event"]["input_tokens"] == 3  # type: ignore[index]


def test_notes_do_not_fill_the_memory() -> None:
    connection = host()
    for _ in range(1100):
        connection.receive(event(type="warning", message="m", strange=1))
    assert len(connection.notes) == 1000 and connection.notes_left_out == 100
    connection = host()
    connection.receive(event(type="warning", message="m", strange="x" * 100_000))
    assert connection.notes[0].value is None


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


def test_a_line_over_the_cap_is_an_error_and_the_next_one_is_read() -> None:
    connection = Connection("host", cap=1000)
    connection.receive(HELLO)
    connection.send(Run(id=RUN, work_order=SAMPLE_ORDER))
    found = connection.receive(event(type="warning", message="m" * 2000) + line(t="pong", seq=1))
    assert [type(item) for item in found] == [LineTooLong, Pong]


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


def test_nothing_outside_the_contract_is_sent() -> None:
    for message in (
        UnknownEnvelope(t="x", body={}),
        Ping(seq=1),
        SidecarHello(**{name: getattr(SAMPLES[0][0][1], name) for name in SidecarHello.__struct_fields__}),
    ):
        sidecar = Connection("sidecar")
        sidecar.send(SAMPLES[0][0][1])
        with pytest.raises(LocalProtocolError):
            sidecar.send(message)


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


def test_the_contract_has_these_many_names() -> None:
    assert (len(CAPABILITIES), len(ERROR_CODES), len({type(event) for event in SAMPLE_EVENTS})) == (41, 44, 10)


messages = st.one_of(
    st.sampled_from([RunEvent(ref_id=RUN, event=event) for event in SAMPLE_EVENTS]),
    st.builds(Pong, seq=st.integers(0, 2**63)),
)


@given(st.lists(messages, max_size=30), st.data())
def test_however_the_bytes_are_cut_the_same_messages_arrive(sent: list[RunEvent], data: st.DataObject) -> None:
    stream = b"".join(msgspec.json.encode(message) + b"\n" for message in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    connection = host()
    found: list[object] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += connection.receive(stream[start:stop])
    assert found == sent


@given(st.binary(max_size=300))
def test_random_bytes_never_do_more_than_leave_an_error(data: bytes) -> None:
    connection = host()
    try:
        connection.receive(data)
        connection.end()
    except RemoteProtocolError:
        pass


def test_cancel_names_the_run_and_may_cross_its_end() -> None:
    connection = host()
    assert json.loads(connection.send(CancelRun(ref_id=RUN))) == {"t": "cancel", "ref_id": RUN, "reason": None}


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
