"""When a repeated order is due again: some seconds after its last start, or when a cron expression says so.

A cron expression has the five fields of crontab: minute, hour, day of the month, month, day of the week. It is read in
a time zone that the order names, so that it means the same wherever the scheduler is; when clocks are set back or
forward, it behaves like Debian's cron.
"""

import os
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from treadle.errors import ConfigError, MissingExtra
from treadle.wire.fleet.orders import Spec

FIELDS = 5


def next_time(cron: str, zone: str, after: float) -> float:
    """The first time after this that matches a cron expression."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise MissingExtra("orders by cron", "fleet") from None
    hint = "minute hour day month weekday, such as '30 6 * * mon-fri'"
    if len(cron.split()) != FIELDS:
        raise ConfigError(f"{cron!r} has not the {FIELDS} fields of a cron expression", hint=hint)
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
