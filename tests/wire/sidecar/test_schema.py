"""The shipped schemas match the types, and what we write is valid."""

import os

import jsonschema
import msgspec
import pytest

from treadle.testing.conversations.sidecar import SAMPLE_EVENTS, SAMPLE_ORDER, SAMPLE_RECEIPT, SAMPLES
from treadle.wire.sidecar.receipts import Receipt
from treadle.wire.sidecar.schema import HERE, TYPES, schema, text


@pytest.mark.parametrize("name", TYPES)
def test_the_shipped_schema_is_the_generated_one(name: str) -> None:
    shipped = HERE / f"{name}.schema.json"
    if os.environ.get("UPDATE_DOCS"):
        shipped.write_text(text(name))
    assert shipped.read_text() == text(name), "`make docs` writes it anew"


def test_nothing_else_is_shipped() -> None:
    assert {path.name for path in HERE.iterdir()} == {f"{name}.schema.json" for name in TYPES}


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
