"""The streams of a fleet: created when missing, migrated when old, refused when newer than this program.

    KV_fleet   state, the last value of each key; readable as the key-value bucket `fleet`
    FLEET_IN   what the scheduler has to handle; each message stays until it has
    FLEET_EV   events of runs, by order and attempt
    OBJ_fleet  patches, bundles and transcripts; the object store `fleet`

docs/reference/fleet.md is the contract for other programs.
"""

from typing import Any

from treadle.errors import StorageError
from treadle.fleet.engine.bus import EVENTS, INBOX, STATE, Bus, EngineRefused
from treadle.wire.fleet import keys

FORMAT = 1
OBJECTS = "OBJ_fleet"
MAX_CONSUMERS = 20_000
"""Unless a stream says otherwise, the server refuses the 1,001st reader."""
VALUES = 2
"""Values of a key that the engine allows: one more than there are, since it applies the limit before the rollup that
removes the older one for good (`bus.Write`)."""
_DAY = 86_400 * 10**9
_FORMAT_KEY = "treadle_format"
_NOT_FOUND = 10059
"""The engine's number for a stream that does not exist."""


def streams(replicas: int) -> list[dict[str, Any]]:
    """The state has no bounds by age or size: a limit would silently drop orders."""
    common: dict[str, Any] = {
        "storage": "file",
        "num_replicas": replicas,
        "max_consumers": MAX_CONSUMERS,
        "allow_direct": True,
        "metadata": {_FORMAT_KEY: str(FORMAT)},
    }
    return [
        {
            **common,
            "name": STATE,
            "subjects": [f"{keys.BUCKET}>"],
            "max_msgs_per_subject": VALUES,
            "allow_rollup_hdrs": True,
            "allow_msg_ttl": True,
            "allow_atomic": True,
            "deny_delete": True,
            "compression": "s2",
        },
        {
            **common,
            "name": INBOX,
            "subjects": ["fleet.in.>"],
            "retention": "workqueue",
            "discard": "new",
            "max_bytes": 2 * 1024**3,
            "duplicate_window": 120 * 10**9,
        },
        {
            **common,
            "name": EVENTS,
            "subjects": ["fleet.ev.*.*.*"],
            "compression": "s2",
            "max_age": 30 * _DAY,
            "max_bytes": 8 * 1024**3,
            "duplicate_window": 120 * 10**9,
        },
        {
            **common,
            "name": OBJECTS,
            "subjects": ["$O.fleet.C.>", "$O.fleet.M.>"],
            "allow_rollup_hdrs": True,
            "max_age": 30 * _DAY,
            "max_bytes": 8 * 1024**3,
        },
    ]


def consumers(lease: float) -> list[tuple[str, dict[str, Any]]]:
    """What only the scheduler reads. Messages are redelivered for ever: each order has its own limit of attempts."""
    common: dict[str, Any] = {
        "ack_policy": "explicit",
        "ack_wait": int(max(lease, 2.0) * 1e9),
        "max_deliver": -1,
        "max_ack_pending": 20_000,
        "deliver_policy": "all",
        "replay_policy": "instant",
    }
    return [
        (STATE, {**common, "durable_name": "intake", "filter_subject": keys.SPEC.subject()}),
        (INBOX, {**common, "durable_name": "inbox", "filter_subject": "fleet.in.>"}),
    ]


async def ensure(bus: Bus, *, replicas: int = 1, lease: float = 5.0) -> None:
    """Create or migrate all of them. Safe to call at any time, by any number of programs."""
    for wanted in streams(replicas):
        await _ensure_stream(bus, wanted)
    for stream, config in consumers(lease):
        name = config["durable_name"]
        request = {"stream_name": stream, "config": config}
        await bus.api(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", request)


async def _ensure_stream(bus: Bus, wanted: dict[str, Any]) -> None:
    name = wanted["name"]
    try:
        info = await bus.api(f"STREAM.INFO.{name}")
    except EngineRefused as refused:
        if refused.number != _NOT_FOUND:
            raise
        try:
            await bus.api(f"STREAM.CREATE.{name}", wanted)
        except StorageError as full:
            need = sum(each.get("max_bytes", 0) for each in streams(1)) / 1024**3
            hint = f"set max_file_store in its JetStream settings to more than {need:g} GB"
            raise StorageError(f"the engine has no room for the stream {name}", hint=hint) from full
        return
    found = info["config"]
    format_ = int((found.get("metadata") or {}).get(_FORMAT_KEY, "0"))
    if format_ > FORMAT:
        raise StorageError(
            f"the engine's stream {name} has format {format_}; this version supports up to {FORMAT}",
            hint="upgrade treadle on this machine",
        )
    changed = {key: value for key, value in wanted.items() if key != "metadata" and found.get(key) != value}
    if changed or format_ < FORMAT:
        metadata = {**(found.get("metadata") or {}), **wanted["metadata"]}
        await bus.api(f"STREAM.UPDATE.{name}", {**found, **changed, "metadata": metadata})
