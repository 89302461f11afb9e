"""Orders as the fleet makes, checks and reads them. What an order is, is declared in `wire/fleet/orders.py`."""

import hashlib
import secrets
import time
from typing import TypeVar

import msgspec

from treadle.errors import ConfigError, RemoteProtocolError, StorageError
from treadle.fleet.engine.bus import Entry
from treadle.fleet.schedules import next_time
from treadle.policy.network import parse_network
from treadle.wire.fleet.connection import read_as
from treadle.wire.fleet.orders import FORMAT, Spec, tolerant
from treadle.wire.fleet.records import AgentQuestion, AnswerRecord, AskRecord, Order

T = TypeVar("T")
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_ID = frozenset("0123456789abcdefghijklmnopqrstuvwxyz-_")
PERSON = "person"
"""The agent of an order that is a question: people answer it, and nothing runs."""


def new_id(key: str = "") -> str:
    """Twelve letters; always the same for the same idempotency key."""
    data = hashlib.blake2b(key.encode(), digest_size=12).digest() if key else secrets.token_bytes(12)
    return "".join(_LETTERS[byte & 31] for byte in data)


def is_id(name: str) -> bool:
    """Whether an order can have this name."""
    return 0 < len(name) <= 64 and _ID.issuperset(name)


def checked(spec: Spec) -> Spec:
    """The order if it is possible at all; raises otherwise."""
    if spec.format != FORMAT:
        raise ConfigError(f"the order has format {spec.format}, and this program knows {FORMAT}")
    try:
        msgspec.convert(msgspec.to_builtins(spec), Spec)
    except msgspec.ValidationError as error:
        raise ConfigError(f"this is not an order: {error}") from None
    if not spec.task.strip():
        raise ConfigError("the task is empty - at `$.task`")
    if not is_id(spec.id):
        raise ConfigError(
            f"{spec.id!r} is not a valid id of an order", hint="use small letters, digits and -, at most 64"
        )
    from treadle.coordination.surfaces import Surface

    for claim in spec.claims:
        Surface(claim)
    if spec.network:
        parse_network(spec.network)
    if spec.agent == PERSON and (spec.after or spec.not_before or spec.every or spec.cron or spec.terminal):
        raise ConfigError("a question to people is asked at once: it has no dependencies, times or terminal")
    if "stall" in spec.retry_on and spec.on_stall not in ("notify", "retry"):
        raise ConfigError(f"on a stall it cannot both {spec.on_stall} and retry", hint="leave out one of the two")
    if "verify" in spec.retry_on and not spec.verify:
        raise ConfigError("it is to be retried when `verify` fails, and has no `verify`", hint="give it --verify CMD")
    if spec.cron and spec.every:
        raise ConfigError("an order is repeated by `every` or by `cron`, not by both")
    if spec.cron:
        next_time(spec.cron, spec.zone, time.time())
    return spec


def begun(spec: Spec, now: float) -> Order:
    """An order that was just submitted, as of a time."""
    return Order(
        id=spec.id,
        state="queued",
        changed=now,
        created=spec.created,
        title=spec.title or spec.task.strip().splitlines()[0][:100],
        agent=spec.agent,
        place=spec.place,
        project=spec.project,
        labels=spec.labels,
        priority=spec.priority,
        limits=spec.limits,
        not_before=spec.not_before,
        after=spec.after,
    )


_specs = msgspec.json.Decoder(Spec)
_orders = msgspec.json.Decoder(Order)


def submitted(data: bytes) -> Spec:
    """An order as a program has stored it, read exactly: what it asks for and we do not know must not be skipped."""
    try:
        return _specs.decode(data)
    except msgspec.MsgspecError as error:
        raise StorageError(str(error)) from error


def read_spec(data: bytes) -> Spec:
    """An order that was accepted once, by this version or another."""
    return _read(_specs, Spec, data, "an order as it was given")


def read_order(entry: Entry) -> Order:
    return _read(_orders, Order, entry.value, entry.key)


def _read(decoder: msgspec.json.Decoder[T], kind: type[T], data: bytes, what: str) -> T:
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError:
        try:
            return msgspec.convert(tolerant(msgspec.json.decode(data), kind), kind)
        except msgspec.MsgspecError as error:
            raise StorageError(f"{what} cannot be read: {error}") from error


encode = msgspec.json.Encoder().encode


def ask_record(spec: Spec, order: Order, asked: AgentQuestion, number: int, now: float) -> AskRecord:
    """`ask.ID.NUMBER`: a question of an order as it is stored and shown."""
    return AskRecord(
        **msgspec.structs.asdict(asked),
        order=spec.id,
        number=number,
        attempt=order.attempt,
        node=order.node,
        title=order.title,
        agent=spec.agent,
        asked_at=now,
        deadline=now + spec.answer_seconds,
        default=spec.answer_default,
    )


def read_answer(data: bytes, key: str) -> AnswerRecord:
    """An answer as anyone may have written it. What cannot be read is no permission: it is a denial that says so."""
    try:
        found: AnswerRecord = read_as(AnswerRecord, data, key)
        return found
    except RemoteProtocolError as error:
        return AnswerRecord(decision="deny", by="the runner", text=f"the answer was refused: {error}")
