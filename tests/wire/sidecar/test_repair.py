"""What real peers get wrong is read, and noted."""

import json
import random
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.testing.conversations.sidecar import SAMPLE_EVENTS, SAMPLE_RECEIPT
from treadle.wire.sidecar.connection import WorkOrder
from treadle.wire.sidecar.receipts import Receipt, Restricted
from treadle.wire.sidecar.repair import NOWHEN, Deviation, convert, inexact_float, read_receipt

RECEIPT = msgspec.to_builtins(SAMPLE_RECEIPT)


def read(tree: object) -> tuple[Receipt, list[str]]:
    notes: list[Deviation] = []
    return convert(tree, Receipt, "receipt", notes), sorted(str(note) for note in notes)


def test_an_empty_receipt_is_a_successful_run_of_which_nothing_is_known() -> None:
    receipt, notes = read({})
    assert receipt.outcome == "complete" and receipt.trace == [] and receipt.usage.input_tokens is None
    assert "receipt.meta: missing" in notes and "receipt.outcome: missing" in notes


def test_unknown_fields_are_taken_out_and_kept_in_a_note() -> None:
    notes: list[Deviation] = []
    receipt = convert({**RECEIPT, "stream_equivalent": True}, Receipt, "receipt", notes)
    assert receipt == SAMPLE_RECEIPT
    assert notes == [Deviation(where="receipt.stream_equivalent", problem="not in the contract", value=True)]


def test_an_unknown_event_becomes_a_warning_that_carries_it() -> None:
    strange = {"type": "usage", "ts": "2024-01-15T10:30:00Z", "input_tokens": 3}
    receipt, notes = read({**RECEIPT, "trace": [strange]})
    assert receipt.trace[0].ext == {"unknown_event": strange}
    assert notes == ["receipt.trace[0]: unknown event type 'usage'"]


def test_unknown_fields_and_codes_of_an_event_are_kept_in_its_ext() -> None:
    event = {"type": "error", "ts": "2024-01-15T10:30:00Z", "message": "m", "error_code": "new_one", "x": 1}
    receipt, _ = read({**RECEIPT, "trace": [event]})
    assert receipt.trace[0].ext == {"unknown_fields": {"x": 1, "error_code": "new_one"}}


def test_unknown_fields_are_kept_beside_what_is_already_in_the_ext() -> None:
    event = {"type": "warning", "ts": "2024-01-15T10:30:00Z", "message": "m", "ext": {"raw": {"n": 1}}, "x": 1}
    receipt, _ = read({**RECEIPT, "trace": [event]})
    assert receipt.trace[0].ext == {"raw": {"n": 1}, "unknown_fields": {"x": 1}}


def test_an_event_that_cannot_be_read_costs_only_itself() -> None:
    good = msgspec.to_builtins(SAMPLE_EVENTS[0])
    receipt, notes = read({**RECEIPT, "trace": [good, 7, {"no": "type"}, good]})
    assert receipt.trace == [SAMPLE_EVENTS[0]] * 2
    assert len(notes) == 2


@pytest.mark.parametrize(
    ("level", "read_as"),
    [({"native": None}, "native"), ("restricted", Restricted), ({"restricted": {}}, Restricted), ("superb", None)],
)
def test_support_levels_are_read_generously(level: object, read_as: object) -> None:
    receipt, _ = read({**RECEIPT, "capabilities": {"streaming": level, "telepathy": "native"}})
    found = receipt.capabilities.get("streaming")
    assert found == read_as or (isinstance(read_as, type) and isinstance(found, read_as))
    assert list(receipt.capabilities) in ([], ["streaming"])


def test_a_value_of_the_wrong_type_is_dropped_where_it_can_be_done_without() -> None:
    receipt, notes = read({**RECEIPT, "usage": {"input_tokens": "many", "output_tokens": 4}, "mode": None})
    assert receipt.usage.input_tokens is None and receipt.usage.output_tokens == 4 and receipt.mode == "mapped"
    assert any(note.startswith("receipt.usage.input_tokens") for note in notes)


def test_a_work_order_may_leave_out_what_is_empty() -> None:
    notes: list[Deviation] = []
    order = convert(
        {"id": "x", "task": "t", "policy": {}, "context": {}, "workspace": {"root": "/w"}},
        WorkOrder,
        "work_order",
        notes,
    )
    assert order.policy.deny_read == [] and order.config.env == {} and order.workspace.root == "/w"


def test_a_work_order_without_a_task_cannot_be_understood() -> None:
    with pytest.raises(msgspec.ValidationError, match="task"):
        convert({"id": "x"}, WorkOrder, "work_order", [])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from([*RECEIPT, "x"]), inside, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(list(RECEIPT)), json_values))
def test_any_receipt_that_is_an_object_can_be_read(changes: dict[str, object]) -> None:
    receipt, _ = read({**RECEIPT, **changes})
    assert isinstance(receipt, Receipt)


def test_reading_decimals_as_the_first_implementation_does_differs_only_past_fifteen_digits() -> None:
    chance = random.Random(5)
    off = 0
    for _ in range(3000):
        short = f"{chance.randrange(10**15)}e{chance.randrange(-22, 8)}"
        assert inexact_float(short) == float(short)
        value = struct.unpack("d", struct.pack("Q", chance.getrandbits(64)))[0]
        if value == value and abs(value) != float("inf"):
            off += inexact_float(repr(value)) != value
    assert 0 < off < 1500


def test_minus_zero_stays_a_float_and_strings_are_left_alone() -> None:
    text = json.dumps({**RECEIPT, "usage_raw": {"s": '-0 and "-0" and 1.5', "n": "@"}}).replace('"@"', "-0")
    assert read_receipt(text.encode(), []).usage_raw == {"s": '-0 and "-0" and 1.5', "n": -0.0}
    assert str(read_receipt(text.encode(), []).usage_raw["n"]) == "-0.0"
    assert str(read_receipt(text.encode(), [], as_abp=True).usage_raw["n"]) == "-0.0"


def test_a_blank_is_marked_where_the_contract_requires_a_value() -> None:
    notes: list[Deviation] = []
    tree = {**RECEIPT, "outcome": 7, "usage": {"input_tokens": "many"}, "verification": {}, "backend": {"id": None}}
    receipt = convert(tree, Receipt, "receipt", notes)
    marked = {note.where: (note.blank, note.value) for note in notes}
    assert marked["receipt.outcome"] == (True, 7) and marked["receipt.usage.input_tokens"] == (False, "many")
    assert marked["receipt.verification.harness_ok"] == (True, None) and receipt.verification.harness_ok is False
    assert marked["receipt.backend.id"] == (True, None) and receipt.backend.id == ""
    for wrong in (7, [], None):
        with pytest.raises(msgspec.ValidationError, match="receipt is not an object"):
            convert(wrong, Receipt, "receipt", [])


@pytest.mark.parametrize(
    ("level", "reason"),
    [
        ({"restricted": {"reason": "small"}}, "small"),
        ({"restricted": {"reason": 7}}, ""),
        ({"restricted": 7}, ""),
        ("restricted", ""),
        ({"native": 1, "emulated": 2}, None),
        ({"superb": 1}, None),
    ],
)
def test_why_a_capability_is_restricted_is_kept_where_it_is_said(level: object, reason: str | None) -> None:
    receipt, notes = read({**RECEIPT, "capabilities": {"streaming": level}})
    found = receipt.capabilities.get("streaming")
    assert (found.restricted.reason if isinstance(found, Restricted) else None) == reason
    assert notes == ([] if reason is not None else ["receipt.capabilities.streaming: unknown support level"])
    assert read({**RECEIPT, "capabilities": 7})[1] == ["receipt.capabilities: not an object"]


@pytest.mark.parametrize(
    ("ts", "kept"), [("2024-01-15T10:30:00Z", "2024-01-15T10:30:00Z"), (7, NOWHEN), (None, NOWHEN)]
)
def test_an_unknown_event_keeps_its_time(ts: object, kept: str) -> None:
    receipt, _ = read({**RECEIPT, "trace": [{"type": "usage", "ts": ts}]})
    assert receipt.trace[0].ts == kept
    known, _ = read({**RECEIPT, "trace": [{"type": "error", "ts": NOWHEN, "message": "m", "error_code": "internal"}]})
    assert not known.trace[0].ext


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{}", "it has no `meta`"),
        (b"[]", "it has no `meta`"),
        (b'{"meta":' + b"[" * 100_000, "it is nested too deep"),
    ],
)
def test_a_file_that_is_no_receipt_says_why(data: bytes, problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        read_receipt(data, [])


def test_decimals_are_read_inexactly_only_where_that_is_asked_for() -> None:
    inexact = next(
        text for text in (f"0.{'123456789' * 2}{n}" for n in range(10_000)) if inexact_float(text) != float(text)
    )
    data = json.dumps({**RECEIPT, "usage_raw": {"n": "@", "i": 123456789012345678}}).replace('"@"', inexact).encode()
    assert read_receipt(data, []).usage_raw == {"n": float(inexact), "i": 123456789012345678}
    assert read_receipt(data, [], as_abp=True).usage_raw == {"n": inexact_float(inexact), "i": 123456789012345678}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-0.5", -0.5),
        ("-1", -1.0),
        ("12", 12.0),
        ("1.", 1.0),
        ("1e2", 100.0),
        ("1E-2", 0.01),
        ("1e308", 1e308),
        ("1e-308", 1e-308),
        ("1e-310", 1e-310),
        ("1e-400", 0.0),
        ("1e-700", 0.0),
        ("0e999", 0.0),
        ("18446744073709551615", 18446744073709551615.0),
        ("1" * 25, 1111111111111111111 * 10.0**6),
        ("0." + "1" * 25, 11111111111111111111 / 10.0**20),
    ],
)
def test_a_decimal_is_scaled_once(text: str, value: float) -> None:
    assert inexact_float(text) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("text", ["1e309", "1e999", "x", "1.2.3", "+1"])
def test_what_is_no_number_or_too_large_is_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        inexact_float(text)
