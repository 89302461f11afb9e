"""The schemas change only when that is meant, and what we write is valid."""

import hashlib

import jsonschema
import msgspec
import pytest

from treadle.testing.conversations.sidecar import SAMPLE_EVENTS, SAMPLE_ORDER, SAMPLE_RECEIPT, SAMPLES
from treadle.wire.sidecar.connection import TYPES, schema, text
from treadle.wire.sidecar.receipts import Receipt

PUBLISHED = {
    "work-order": "dec211bac323ba86",
    "receipt": "8b8d8bdaffa4a627",
    "policy": "a202da65e94e6bcc",
    "event": "d783941d57d2cb3e",
    "envelope": "6cec5ba0a33ac435",
    "hello": "b0432a52dd9575fb",
    "run": "b9ce3a225c018a22",
    "event-envelope": "7e5afec2377da0ef",
    "final": "f3fdf01967ff985d",
    "fatal": "fecec242cdf5cf3d",
    "cancel": "46f86b481bf415eb",
    "ping": "8ba37faca5802f8c",
    "pong": "b6e773cf8648bae5",
}
"""The begin of each schema's SHA-256: who changes a type of the contract says so here."""


def test_the_schemas_are_those_that_were_published() -> None:
    assert {name: hashlib.sha256(text(name).encode()).hexdigest()[:16] for name in TYPES} == PUBLISHED


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
