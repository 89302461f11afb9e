"""Orders as the fleet makes, checks and reads them, and when a repeated one is due. What an order is, is declared in
`wire/fleet/orders.py`.
"""

import hashlib
import os
import secrets
import time
from datetime import UTC, datetime, tzinfo
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from treadle.errors import ConfigError, MissingExtra, StorageError
from treadle.fleet.engine.bus import Entry
from treadle.policy.network import parse_network
from treadle.sessions.handover import own_words
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import FORMAT, Spec
from treadle.wire.fleet.records import AgentQuestion, AnswerRecord, AskRecord, Order

# When a repeated order is due again: some seconds after its last start, or when a cron expression says so.
#
# A cron expression has the five fields of crontab: minute, hour, day of the month, month, day of the week. It is read
# in a time zone that the order names, so that it means the same wherever the scheduler is; when clocks are set back
# or forward, it behaves like Debian's cron.

FIELDS = 5


def next_time(cron: str, zone: str, after: float) -> float:
    """The first time after this that matches a cron expression."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise MissingExtra("orders by cron", "fleet") from None
    hint = "minute hour day month weekday, such as '30 6 * * mon-fri'"
    if len(cron.split()) != FIELDS:
        raise ConfigError(f"{cron!r}does not have the {FIELDS} fields of a cron expression", hint=hint)
    try:
        found = next(CronSim(cron.upper(), datetime.fromtimestamp(after, zone_of(zone))))
    except CronSimError as error:
        raise ConfigError(f"{cron!r} is not a cron expression: {error}", hint=hint) from None
    except StopIteration:
        raise ConfigError(f"{cron!r} matches no day that exists", hint=hint) from None
    return found.timestamp()


def first_due(spec: Spec, now: float) -> float:
    """When an order that was just submitted is due."""
    if spec.cron and not spec.series:
        return next_time(spec.cron, spec.zone, max(spec.not_before, now))
    return spec.not_before


def due_again(spec: Spec, began: float, now: float) -> float:
    """When an order that began then is due again; never before now, so missed times are not made up for."""
    if spec.cron:
        return next_time(spec.cron, spec.zone, now)
    return max(began + spec.every, now)


def zone_of(name: str) -> tzinfo:
    if name in ("", "UTC"):  # works even where the machine knows no other zones
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(f"there is no time zone {name!r}", hint="write Europe/Berlin, or UTC") from None


def local_zone() -> str:
    """The name of this machine's time zone; UTC where it has none."""
    named = os.environ.get("TZ", "").lstrip(":")
    target = named or os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    try:
        zone_of(target)
        return target or "UTC"
    except ConfigError:
        return "UTC"


T = TypeVar("T")
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_ID = frozenset("0123456789abcdefghijklmnopqrstuvwxyz-_")
TRAIN = "train"
"""Who gives orders back whose work could not land; the comments are the train's then, not a reviewer's."""
PERSON, NULL = "person", "null"
"""The agent of an order that is a question, which people answer; and of one that runs `setup` and `verify` alone."""


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
        raise ConfigError(f"the order has format {spec.format}; this version supports {FORMAT}")
    try:
        msgspec.convert(msgspec.to_builtins(spec), Spec)
    except msgspec.ValidationError as error:
        raise ConfigError(f"this is not an order: {error}") from None
    if not spec.task.strip():
        raise ConfigError("the task is empty - at `$.task`")
    if not is_id(spec.id):
        raise ConfigError(
            f"{spec.id!r} is not a valid id of an order", hint="use lowercase letters, digits and -, at most 64"
        )
    from treadle.coordination.surfaces import Surface

    for claim in spec.claims:
        Surface(claim)
    if spec.network:
        parse_network(spec.network)
    if spec.agent == PERSON and (spec.after or spec.not_before or spec.every or spec.cron or spec.terminal):
        raise ConfigError("a question to people is asked at once: it has no dependencies, times or terminal")
    if "stall" in spec.retry_on and spec.on_stall not in ("notify", "retry"):
        raise ConfigError(f"a stuck order cannot both {spec.on_stall} and retry", hint="leave out one of the two")
    if "verify" in spec.retry_on and not spec.verify:
        raise ConfigError("`retry_on` names verify, and no `verify` is set", hint="give it --verify CMD")
    if spec.cron and spec.every:
        raise ConfigError("an order is repeated by `every` or by `cron`, not by both")
    if spec.cron:
        next_time(spec.cron, spec.zone, time.time())
    return spec


def begun(spec: Spec, now: float) -> Order:
    """An order that was just submitted, as of a time."""
    task = spec.task.strip()
    return Order(
        id=spec.id,
        state="queued",
        changed=now,
        created=spec.created,
        title=spec.title or (own_words(task) or task).splitlines()[0][:100],
        agent=spec.agent,
        place=spec.place,
        project=spec.project,
        labels=spec.labels,
        priority=spec.priority,
        limits=spec.limits,
        not_before=spec.not_before,
        after=spec.after,
        helps=(spec.retry_of or TRAIN) if spec.by == TRAIN else "",
    )


_submitted = msgspec.json.Decoder(Spec)


def submitted(data: bytes) -> Spec:
    """An order as a program has stored it, read exactly: what it asks for and we do not know must not be skipped."""
    try:
        return _submitted.decode(data)
    except msgspec.MsgspecError as error:
        raise StorageError(str(error)) from error


def read_spec(data: bytes) -> Spec:
    """An order that was accepted once, by this version or another."""
    return keys.SPEC.read(data, "an order as it was given")


def read_order(entry: Entry) -> Order:
    return keys.ORDER.read(entry.value, entry.key)


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
        return keys.ANSWER.read(data, key)
    except StorageError as error:
        return AnswerRecord(decision="deny", by="the runner", text=f"the answer was refused: {error}")
