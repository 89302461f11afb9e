"""Everything that is stored is declared as a record, and every record keeps the same promises."""

import enum
import importlib
import os
import re
import subprocess
import sys
import types
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.house import SRC, names
from treadle.errors import Busy, StorageError
from treadle.io.records import FileRecord
from treadle.wire.common.records import Damaged, Newer, Record
from treadle.wire.fleet.keys import KEYS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(0, 2**31 - 1),
    float: st.floats(0, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
    bytes: st.binary(max_size=8),
    Any: st.none() | TEXT | st.lists(TEXT, max_size=2),
    object: st.none() | TEXT,
}


DECLARED = re.compile(r"^([A-Z_]+)(?:: .*)? = (?:File)?(?:Record|Key)\(", re.M)
RECORDS = [f"{module}.{name}" for module, path in names().items() for name in DECLARED.findall(path.read_text())]
each = pytest.mark.parametrize("name", RECORDS)


def declared(name: str) -> Record[Any]:
    """Imported by the test and not before: other tests look at what importing does."""
    module, _, constant = name.rpartition(".")
    found: Record[Any] = getattr(importlib.import_module(module), constant)
    return found


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
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from([*kind])
    if issubclass(kind, tuple):
        return st.builds(kind, **{name: values(hint) for name, hint in get_type_hints(kind).items()})
    raise AssertionError(f"how is {kind} made?")


def of(record: Record[Any]) -> st.SearchStrategy[Any]:
    made = values(record.kind)
    return made if record.kind != dict[str, object] else made.map(lambda value: value | {"format": record.format})


@each
@settings(max_examples=12, phases=[Phase.explicit, Phase.generate], deadline=None)
@given(data=st.data())
def test_a_record_is_read_as_it_was_written_also_with_fields_of_a_later_version(name: str, data: st.DataObject) -> None:
    record = declared(name)
    value = data.draw(of(record))
    written = record.written(value)
    assert record.read(written, "x") == value
    if isinstance(record.kind, type) and issubclass(record.kind, msgspec.Struct):
        later = msgspec.json.encode(msgspec.json.decode(written) | {"of_a_later_version": [1]})
        assert record.read(later, "x") == value


@each
@settings(max_examples=12, phases=[Phase.explicit, Phase.generate], deadline=None)
@given(data=st.data())
def test_what_a_newer_version_wrote_is_said_and_what_is_no_record_is_damaged(name: str, data: st.DataObject) -> None:
    record = declared(name)
    written = record.written(data.draw(of(record)))
    if "format" in getattr(record.kind, "__struct_fields__", ()) and record.format < 2**31:
        tree = msgspec.json.decode(written)
        gone = data.draw(st.sampled_from([*tree, ""]))
        newer = {key: value for key, value in tree.items() if key != gone} | {"format": record.format + 1}
        with pytest.raises(Newer, match="^/here/it was written by a newer treadle ") as refused:
            record.read(msgspec.json.encode(newer), "/here/it")
        assert refused.value.hint == "upgrade treadle"
    cut = written[: data.draw(st.integers(0, len(written.strip()) - 1))]
    for broken in (cut, b"{" + data.draw(st.binary(max_size=20)) + b"\xff", b"7", b"[" * 5_000):
        with pytest.raises(Damaged, match="^/here/it is damaged: ") as refused:
            record.read(broken, "/here/it")
        assert refused.value.hint == record.hint


def test_a_file_is_private_and_none_where_there_is_none_and_its_lock_is_beside_it(tmp_path: Path) -> None:
    record, path = FileRecord(dict[str, int]), str(tmp_path / "it.json")
    assert record.load(path) is None and record.load_whole(path) is None
    with pytest.raises(StorageError, match=f"cannot read {path}"):
        record.get(path)
    with record.locked(path), pytest.raises(Busy):
        record.locked(path, 0).__enter__()
    record.save(path, {"a": 1})
    assert record.get(path) == {"a": 1} and os.stat(path).st_mode & 0o777 == 0o600
    Path(path).write_bytes(b"")
    assert record.load_whole(path) is None
    Path(path).write_bytes(b'{"format": 2}')
    with pytest.raises(Newer):
        record.load_whole(path)
    assert Path(path).read_bytes() == b'{"format": 2}'


WRITES = """
import sys
from treadle.io.records import FileRecord
record, number = FileRecord(list[int]), 0
while True:
    number += 1
    record.save(sys.argv[1], [number] * 20_000)
    print(flush=True)
"""


@pytest.mark.parametrize("lines", [1, 2, 7])
def test_who_is_killed_while_it_writes_leaves_the_old_record_or_the_new_one(tmp_path: Path, lines: int) -> None:
    path, record = str(tmp_path / "it.json"), FileRecord(list[int])
    with subprocess.Popen([sys.executable, "-c", WRITES, path], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(lines):
            writer.stdout.readline()
        writer.kill()
    found = record.get(path)
    assert len(found) == 20_000 and len({*found}) == 1 and found[0] >= lines


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


NO_RECORDS = {
    "drivers/confined.py": "settings for the agent",
    "host/conclusion.py": "a receipt",
    "host/store.py": "an order as it was given",
}
"""What is written as JSON in a form that is not ours to declare."""


def test_what_is_stored_as_json_is_a_declared_record() -> None:
    by_hand = re.compile(r"write_atomic\([^\n]*json\.(encode|format)")
    found = {path for path in names().values() if by_hand.search(path.read_text())}
    assert {str(path.relative_to(SRC / "treadle")) for path in found} == {*NO_RECORDS}
