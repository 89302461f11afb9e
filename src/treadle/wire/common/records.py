"""What is stored, in a file or under a key of the fleet's bucket, and read again by another version of this program.

    TRUST = FileRecord(TrustRegister, format=1)        # io/records.py adds the path, the lock and the atomic write
    TRAIN = Key("train.NAME", TrainRecord, ...)        # wire/fleet/keys.py adds the key

A record has a format number. What an older version wrote is read, migrated where its shape has changed; fields that
this version does not know are skipped. What a newer version wrote raises `Newer`, what no version wrote `Damaged`.
Light: msgspec is loaded for records that have a type of it. Small commands give functions of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from treadle.errors import StorageError
from treadle.light import TYPE_CHECKING, Any
from treadle.wire.common.jsontext import dumps, loads, repaired

if TYPE_CHECKING:
    from typing import Generic, TypeVar

    T = TypeVar("T")
else:

    class Generic:
        """Stands in for that of `typing`, which small commands do not load."""

        def __class_getitem__(cls, item):
            return cls

    T = object


class Damaged(StorageError):
    """What is stored is no record of its kind."""

    def __init__(self, where: str, error: object, hint: str | None = None) -> None:
        super().__init__(f"{where} is damaged: {error}", hint=hint)


class Newer(StorageError):
    """What is stored is left untouched: this version does not know what it means."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} was written by a newer treadle", hint="upgrade treadle")


class Record(Generic[T]):
    """One kind of record. `older` has, for each format that needs it, the function that makes the next one of its
    tree. `hint` says what to do about a damaged one.
    """

    def __init__(
        self,
        kind: type[T],
        *,
        format: int = 1,
        older: Mapping[int, Callable[[Any], Any]] | None = None,
        hint: str | None = None,
        decode: Callable[[bytes], T] | None = None,
        encode: Callable[[T], bytes] | None = None,
    ) -> None:
        self.kind, self.format, self.older, self.hint = kind, format, older or {}, hint
        self._decode, self._encode = decode, encode

    def read(self, data: bytes, where: str) -> T:
        """The record in `data`, which is stored in `where`. Raises Damaged and Newer."""
        try:
            found = (self._decode or self._typed())(data)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            return self._read_other(data, where, error)
        number = _number(found, self.format)
        return self._read_other(data, where, "") if number > self.format or number in self.older else found

    def written(self, value: T) -> bytes:
        if self._encode is None:
            self._typed()
        assert self._encode is not None
        return self._encode(value)

    def _read_other(self, data: bytes, where: str, error: object) -> T:
        """What is not read at once is newer, older or damaged."""
        try:
            tree = loads(data)
        except ValueError as wrong:
            raise Damaged(where, error or wrong, self.hint) from None
        number = _number(tree, self.format)
        if number > self.format:
            raise Newer(where)
        if number not in self.older:
            raise Damaged(where, error, self.hint)
        return self.read(dumps(self.older[number](tree)).encode(), where)

    def _typed(self) -> Callable[[bytes], T]:
        import msgspec

        exactly = msgspec.json.Decoder(self.kind)

        def decode(data: bytes) -> T:
            try:
                found: T = exactly.decode(data)
            except msgspec.ValidationError:  # perhaps by a field that its type forbids and a later version has added
                found = msgspec.convert(without_unknown(msgspec.json.decode(data), self.kind), self.kind)
            return found

        self._decode = self._decode or decode
        self._encode = self._encode or msgspec.json.Encoder().encode
        return self._decode


def plain_object(data: bytes) -> dict[str, Any]:
    """For records of small commands: an object of JSON, unchecked inside but for its format."""
    found = loads(data)
    if not isinstance(found, dict) or type(found.get("format")) is not int:
        raise ValueError("it is not an object with a format")
    return found


def plain_text(value: dict[str, Any]) -> bytes:
    return f"{dumps(repaired(value))}\n".encode()


def _number(found: Any, default: int) -> int:
    number = found.get("format") if isinstance(found, dict) else getattr(found, "format", None)
    return number if type(number) is int else default


def without_unknown(tree: Any, kind: Any) -> Any:
    """The tree without fields that the type does not have: what a later version added, or another program."""
    import msgspec

    if not isinstance(tree, dict) or not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return tree
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    return {name: without_unknown(value, _bare(known[name])) for name, value in tree.items() if name in known}


def _bare(hint: Any) -> Any:
    from typing import Annotated, get_args, get_origin

    return get_args(hint)[0] if get_origin(hint) is Annotated else hint
