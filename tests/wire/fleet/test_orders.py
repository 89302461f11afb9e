"""One declaration of an order: what it refuses, what it tolerates, and that every way in knows every field."""

from typing import Any

import click
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from treadle.cli.fleet.orders import submit
from treadle.errors import ConfigError
from treadle.serve.server import document
from treadle.wire.common.records import without_unknown
from treadle.wire.fleet.orders import OURS, OrderRequest, Spec, declared, read_request


def test_what_is_set_when_an_order_is_submitted_cannot_be_given() -> None:
    ours = {"format", "id", "asked", "answer", "bundle", "judge", "series", "retry_of", "shares", "by", "created"}
    assert ours == OURS


def test_every_way_in_has_every_field() -> None:
    """The command line, and the HTTP call's schema: what one takes, all take."""
    names = {field.path.replace(".", "_") for field in declared() if field.option}
    options = {parameter.name for parameter in submit.params if isinstance(parameter, click.Option)}
    assert {"agent", "limits_usd", "model"} <= names <= options
    schemas = document()["components"]["schemas"]
    schema = schemas["OrderRequest"]
    assert set(schema["properties"]) == set(OrderRequest.__struct_fields__)
    assert schema["additionalProperties"] is False and schemas["OrderLimits"]["additionalProperties"] is False
    assert all("description" in schema["properties"][field.name] for field in declared() if not field.inside)


@given(st.dictionaries(st.text(min_size=1), st.none() | st.booleans() | st.integers() | st.text() | st.floats()))
def test_any_table_is_an_order_or_is_refused(table: dict[str, Any]) -> None:
    try:
        found = read_request(table, "here")
    except ConfigError as error:
        assert str(error).startswith("here: ")
    else:
        assert set(table) <= set(OrderRequest.__struct_fields__)
        assert msgspec.convert(msgspec.to_builtins(found), OrderRequest) == found


def test_every_field_has_its_meaning_in_words_and_its_option_and_placeholder_apart() -> None:
    fields = {field.path: field for field in declared()}
    for path, field in fields.items():
        assert field.meaning[0].isupper() or field.meaning[0].isdigit(), path
        assert field.meaning.endswith("."), path
        assert field.option == "" or field.option.startswith("--"), path
        assert not field.metavar.startswith("-") and " " not in field.metavar, path
    usd, task, labels = fields["limits.usd"], fields["task"], fields["labels"]
    assert (usd.name, usd.inside, usd.option, usd.metavar, usd.number) == ("usd", "limits", "--max-usd", "USD", float)
    assert (task.inside, task.default, task.option, task.number, task.many) == ("", None, "", None, False)
    assert labels.many and labels.default == () and labels.choices == ()
    assert fields["if_failed"].choices == ("block", "skip", "run") and fields["priority"].number is int
    assert fields["every"].reads == "schedule" and fields["agent"].default == "native" and "limits" not in fields


def test_an_order_works_in_a_worktree_and_without_a_terminal_unless_it_says_otherwise() -> None:
    spec = Spec(id="a", task="t", agent="acp:some", root="/r")
    assert not spec.in_place and not spec.terminal
    assert (spec.account, spec.place) == ("acp", "/r")
    other = msgspec.structs.replace(spec, credential="team", repo="https://r.example/x.git")
    assert (other.account, other.place) == ("team", "https://r.example/x.git")


def test_what_a_type_does_not_have_is_left_out_at_every_depth_and_the_rest_stays() -> None:
    tree = {"task": "t", "limits": {"usd": 1, "joules": 5}, "labels": ["a"], "colour": "red"}
    assert without_unknown(tree, Spec) == {"task": "t", "limits": {"usd": 1}, "labels": ["a"]}
    assert without_unknown({"a": {"b": 1}}, dict) == {"a": {"b": 1}} and without_unknown(["x"], Spec) == ["x"]
    policy = {"deny_read": ["x"]}
    assert without_unknown({"policy": {**policy, "deny_dreams": []}}, Spec) == {"policy": policy}
