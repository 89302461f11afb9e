"""Figures of the fleet in the text format that Prometheus reads."""

import time
from collections.abc import Callable

from treadle.fleet import client
from treadle.fleet.engine.bus import EVENTS, STATE, Bus
from treadle.landing import train as trains
from treadle.serve.fleet_link import FleetLink
from treadle.wire.fleet.train import TrainRecord

STATES = ("queued", "placed", "running", "asking", "done", "failed", "cancelled", "skipped")


async def text(fleet: FleetLink, watchers: int) -> str:
    lines = [
        "# HELP treadle_up Whether the fleet's engine answers.",
        "# TYPE treadle_up gauge",
        f"treadle_up {int(fleet.bus is not None and fleet.bus.connected)}",
        "# TYPE treadle_watchers gauge",
        f"treadle_watchers {watchers}",
    ]
    if fleet.bus is None or fleet.index is None:
        return "\n".join(lines) + "\n"
    counts = fleet.index.counts()
    lines += ["# HELP treadle_orders Orders by state.", "# TYPE treadle_orders gauge"]
    lines += [f'treadle_orders{{state="{state}"}} {counts.get(state, 0)}' for state in STATES]
    totals = fleet.index.totals()
    for name, about, value in (
        ("treadle_tokens_total", "Tokens that orders used.", totals["tokens"]),
        ("treadle_cost_usd_total", "What orders cost, where the price is known.", totals["usd"]),
        ("treadle_retries_total", "Attempts beyond the first of each order.", totals["retries"]),
        ("treadle_takeovers_total", "Attempts that were lost and taken over.", totals["lost"]),
        ("treadle_wait_seconds_sum", "Seconds that orders waited for their first start.", totals["waited"]),
        ("treadle_wait_seconds_count", "Orders that were started.", totals["started"]),
        ("treadle_run_seconds_sum", "Seconds that attempts ran.", totals["ran"]),
        ("treadle_run_seconds_count", "Attempts that have ended.", totals["runs"]),
    ):
        lines += [f"# HELP {name} {about}", f"# TYPE {name} counter", f"{name} {value:g}"]
    lag = {}
    for stream, at in ((STATE, fleet.index.state_at), (EVENTS, fleet.index.events_at)):
        info = await fleet.bus.api(f"STREAM.INFO.{stream}")
        lag[stream] = max(0, int(info["state"]["last_seq"]) + 1 - at)
    lines += ["# HELP treadle_lag_messages Messages of a stream not yet taken in.", "# TYPE treadle_lag_messages gauge"]
    lines += [f'treadle_lag_messages{{stream="{stream}"}} {count}' for stream, count in lag.items()]
    nodes = await client.nodes(fleet.bus)
    lines += ["# TYPE treadle_nodes gauge", f"treadle_nodes {sum(each.alive for each in nodes)}"]
    lines += await _trains(fleet.bus)
    lines += ["# TYPE treadle_scraped_seconds gauge", f"treadle_scraped_seconds {time.time():.3f}"]
    return "\n".join(lines) + "\n"


def _oldest(record: TrainRecord) -> float:
    return max((time.time() - change.at for change in record.queue), default=0.0)


TRAIN: tuple[tuple[str, str, str, Callable[[TrainRecord], float]], ...] = (
    ("waiting", "gauge", "Changes that wait to land.", lambda each: len(each.queue)),
    ("oldest_seconds", "gauge", "How long the oldest of them has waited.", _oldest),
    ("stopped", "gauge", "Whether it stands still.", lambda each: int(each.paused is not None)),
    ("landed_total", "counter", "Changes that landed.", lambda each: each.landed),
    ("checks_total", "counter", "Checks that were run.", lambda each: each.checks),
    ("flaky_total", "counter", "Checks that failed once and passed when run again.", lambda each: each.flaky),
)


async def _trains(bus: Bus) -> list[str]:
    """What waits to land and for how long, for each branch."""
    found = (await trains.trains(bus)).items()
    lines = []
    for name, kind, about, value in TRAIN:
        lines += [f"# HELP treadle_train_{name} {about}", f"# TYPE treadle_train_{name} {kind}"]
        for train, each in found:
            labels = f'train="{train}",branch="{_quoted(each.branch)}"'
            lines.append(f"treadle_train_{name}{{{labels}}} {value(each):g}")
    return lines


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
