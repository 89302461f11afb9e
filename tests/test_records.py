"""Everything that is stored is declared as a record, and every record keeps the same promises."""

import importlib
import re
import types
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.house import names
from treadle.wire.common.records import Damaged, Newer, Record
from treadle.wire.fleet.keys import KEYS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
    bytes: st.binary(max_size=8),
    Any: st.none() | TEXT | st.lists(TEXT, max_size=2),
    object: st.none() | TEXT,
}


def declared() -> dict[str, Record[Any]]:
    """Every record that a module of ours declares, by its name."""
    found = {}
    for module, path in names().items():
        if "Record(" in path.read_text() or "Key(" in path.read_text():
            for name, value in vars(importlib.import_module(module)).items():
                if isinstance(value, Record):
                    found[f"{module}.{name}"] = value
    return {name: value for name, value in found.items() if [*found.values()].index(value) == [*found].index(name)}


@cache
def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type, as `msgspec` reads it."""
    origin, inside = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        # A bound, as on the length of a name, is met by the default, if there is one.
        fields = [each for each in msgspec.structs.fields(kind) if each.required or get_origin(each.type) != Annotated]
        given = {each.name: values(each.type) for each in fields if each.name != "format"}
        return st.builds(kind, **given)
    if origin is Annotated:
        return values(inside[0])
    if origin is Literal:
        return st.sampled_from(inside)
    if origin in (Union, types.UnionType):
        return st.one_of([values(each) for each in inside if each is not msgspec.UnsetType])
    if origin is tuple and inside[-1] is not ...:
        return st.tuples(*map(values, inside))
    if origin in (tuple, list, frozenset, set):
        return st.lists(values(inside[0]), max_size=2).map(origin)
    if origin in (dict, Mapping):
        return st.dictionaries(values(inside[0]), values(inside[1]), max_size=2)
    raise AssertionError(f"how is {kind} made?")


RECORDS = declared()
each = pytest.mark.parametrize("name", RECORDS)


@each
@settings(max_examples=12, phases=[Phase.explicit, Phase.generate], deadline=None)
@given(data=st.data())
def test_a_record_is_read_as_it_was_written_also_with_fields_of_a_later_version(name: str, data: st.DataObject) -> None:
    record = RECORDS[name]
    value = data.draw(values(record.kind))
    written = record.written(value)
    assert record.read(written, "x") == value
    tree = msgspec.json.decode(written)
    if isinstance(tree, dict) and msgspec.json.encode(tree) == written:
        assert record.read(msgspec.json.encode(tree | {"of_a_later_version": [1]}), "x") == value


@each
@settings(max_examples=12, phases=[Phase.explicit, Phase.generate], deadline=None)
@given(data=st.data())
def test_what_a_newer_version_wrote_is_said_and_what_is_no_record_is_damaged(name: str, data: st.DataObject) -> None:
    record = RECORDS[name]
    written = record.written(data.draw(values(record.kind)))
    if "format" in getattr(record.kind, "__struct_fields__", ()) and record.format < 2**31:
        tree = msgspec.json.decode(written)
        gone = data.draw(st.sampled_from([*tree, ""]))
        newer = {key: value for key, value in tree.items() if key != gone} | {"format": record.format + 1}
        with pytest.raises(Newer, match="^/here/it was written by a newer treadle ") as refused:
            record.read(msgspec.json.encode(newer), "/here/it")
        assert refused.value.hint == "upgrade treadle"
    cut = written[: data.draw(st.integers(0, len(written) - 1))]
    for broken in (cut, data.draw(st.binary(max_size=20)), b"7", b"[" * 5_000):
        with pytest.raises(Damaged, match="^/here/it is damaged: ") as refused:
            record.read(broken, "/here/it")
        assert refused.value.hint == record.hint


def test_a_record_of_an_older_format_goes_through_every_step_to_the_latest() -> None:
    record: Record[dict[str, Any]] = Record(
        dict, format=3, older={1: lambda it: {**it, "format": 2, "b": 1}, 2: lambda it: {**it, "format": 3, "c": 1}}
    )
    assert record.read(b'{"format":1}', "x") == {"format": 3, "b": 1, "c": 1}
    assert record.read(b'{"format":2}', "x") == {"format": 3, "c": 1}
    assert record.read(b'{"format":3}', "x") == {"format": 3}


KEY_TEXT = re.compile(rf"""["']({"|".join(key.word for key in KEYS)})\.[{{*>]|\$KV\.fleet|\(["']control["']""")


def test_no_key_of_the_bucket_is_written_down_outside_of_its_table() -> None:
    for text in ('f"order.{name}"', '"goal.*"', 'f"$KV.fleet.{key}"', 'bus.get("control")', "Write('control', b'')"):
        assert KEY_TEXT.search(text), text
    rooms = ("fleet", "landing", "goals", "serve", "library", "cli", "host", "wire")
    places = [path for name, path in names().items() if name.split(".")[1:2] and name.split(".")[1] in rooms]
    wrong = [
        f"{path.name}: {line.strip()}"
        for path in places
        for line in path.read_text().splitlines()
        if path.name != "keys.py" and KEY_TEXT.search(line)
    ]
    assert wrong == [], "keys.py has a function for it"
