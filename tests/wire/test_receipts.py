"""Receipts: what real peers get wrong is read and noted, and the hash is that of another implementation."""

import hashlib
import json
import math
import random

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.wire.conversations.sidecar import SAMPLE_EVENTS, SAMPLE_RECEIPT
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.connection import WorkOrder
from treadle.wire.sidecar.receipts import Receipt, canonical, float_text, normal, plain, receipt_hash
from treadle.wire.sidecar.repair import Deviation, convert, read_receipt


def read(text: str) -> Receipt:
    return normal(read_receipt(text.encode(), []))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=12,
)


@st.composite
def some_receipts(draw: st.DrawFn) -> Receipt:
    moment = draw(st.sampled_from(["2025-01-15T12:00:00.100Z", "2025-01-15 13:00:00.25+01:00", "2025-01-15t12:00:00z"]))
    events = [replace(event, ts=moment) for event in draw(st.lists(st.sampled_from(SAMPLE_EVENTS), max_size=5))]
    if draw(st.booleans()):
        events.append(receipts.ToolCalled(ts=moment, tool_name="t", input=draw(json_values)))
    return replace(
        SAMPLE_RECEIPT,
        usage_raw=draw(json_values),
        trace=events,
        receipt_sha256=draw(st.none() | st.text()),
        usage=receipts.UsageTotals(estimated_cost_usd=draw(st.floats(0, 1e6))),
    )


@given(some_receipts())
def test_normalising_twice_is_normalising_once(receipt: Receipt) -> None:
    once = normal(receipt)
    assert receipts.encode(normal(once)) == receipts.encode(once)


@given(some_receipts(), st.none() | st.text())
def test_the_hash_does_not_count_the_stored_hash(receipt: Receipt, stored: str | None) -> None:
    receipt = normal(receipt)
    assert receipt_hash(receipt) == receipt_hash(replace(receipt, receipt_sha256=stored))


@given(some_receipts(), st.randoms())
def test_the_order_of_keys_does_not_count(receipt: Receipt, chance: random.Random) -> None:
    receipt = normal(receipt)

    def shuffled(node: object) -> object:
        if isinstance(node, dict):
            names = list(node)
            chance.shuffle(names)
            return {name: shuffled(node[name]) for name in names}
        return [shuffled(inside) for inside in node] if isinstance(node, list) else node

    text = msgspec.json.encode(shuffled(msgspec.json.decode(receipts.encode(receipt))))
    assert receipt_hash(normal(read_receipt(text, []))) == receipt_hash(receipt)


@given(some_receipts())
def test_what_is_written_reads_back_with_the_same_hash(receipt: Receipt) -> None:
    receipt = receipts.sealed(receipt)
    again = normal(read_receipt(receipts.encode(receipt), []))
    assert receipt_hash(again) == receipt.receipt_sha256


@given(some_receipts())
def test_the_canonical_text_is_a_dump_with_sorted_keys(receipt: Receipt) -> None:
    text = canonical(normal(receipt)).decode()
    numbers: list[str] = []
    tree = json.loads(text, parse_float=lambda number: numbers.append(number) or float(number))
    assume(not any("e" in number or "0.0000" in number for number in numbers))
    assert text == json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_reads_back_the_same_and_is_written_as_the_rule_says(value: float) -> None:
    written = msgspec.json.encode(plain(value)).decode()
    assert written == float_text(value)
    assert math.copysign(1, float(written)) == math.copysign(1, value) and float(written) == value


def test_values_no_peer_can_hold_are_made_plain() -> None:
    deep: object = 1
    for _ in range(300):
        deep = [deep]
    made = plain({"nan": math.nan, "inf": math.inf, "lone": "a\ud800b", "set": {1}, "huge": 10**400, "deep": deep})
    assert made["nan"] is None and made["inf"] is None
    assert made["lone"] == "a?b"
    assert made["set"] == [1]
    assert made["huge"] == str(10**400)
    hashlib.sha256(canonical(normal(replace(SAMPLE_RECEIPT, usage_raw=made))))


# RFC 8785, by another implementation: the same but for what the reference lists...
_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(1e-6, 1e15).filter(lambda value: value != int(value) and value >= 1e-5)
    | st.text(st.characters(max_codepoint=0xD7FF)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(max_codepoint=0xD7FF)), inner),
    max_leaves=12,
)


def written(value: object) -> str:
    text = canonical(normal(replace(SAMPLE_RECEIPT, usage_raw=value))).decode()
    return text.partition('"usage_raw":')[2].partition(',"verification":')[0]


@given(_PLAIN)
def test_the_canonical_text_is_that_of_rfc_8785_for_ordinary_values(value: object) -> None:
    rfc8785 = pytest.importorskip("rfc8785")
    assume('"verification"' not in str(value))
    assert written(value) == rfc8785.dumps(value).decode()


@pytest.mark.parametrize(
    ("value", "ours", "theirs"),
    [
        (1.0, "1.0", "1"),
        (-0.0, "-0.0", "0"),
        (1e16, "1e+16", "10000000000000000"),
        (1e-6, "1e-6", "0.000001"),
        ({"\ue000": 1, "\U0001f600": 2}, '{"\ue000":1,"\U0001f600":2}', '{"\U0001f600":2,"\ue000":1}'),
        (2**53, "9007199254740992", None),
        (2**64 - 1, "18446744073709551615", None),
    ],
)
def test_where_the_contract_differs_from_rfc_8785(value: object, ours: str, theirs: str | None) -> None:
    rfc8785 = pytest.importorskip("rfc8785")
    assert written(value) == ours
    if theirs is None:
        with pytest.raises(rfc8785.IntegerDomainError):
            rfc8785.dumps(value)
    else:
        assert rfc8785.dumps(value).decode() == theirs


RECEIPT = msgspec.to_builtins(SAMPLE_RECEIPT)


def repaired(tree: object) -> tuple[Receipt, list[str]]:
    notes: list[Deviation] = []
    return convert(tree, Receipt, "receipt", notes), sorted(str(note) for note in notes)


def test_a_work_order_without_a_task_cannot_be_understood() -> None:
    with pytest.raises(msgspec.ValidationError, match="task"):
        convert({"id": "x"}, WorkOrder, "work_order", [])


receipt_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from([*RECEIPT, "x"]), inside, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(list(RECEIPT)), receipt_values))
def test_any_receipt_that_is_an_object_can_be_read(changes: dict[str, object]) -> None:
    receipt, _ = repaired({**RECEIPT, **changes})
    assert isinstance(receipt, Receipt)


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
