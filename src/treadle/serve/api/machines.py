"""Nodes, claims, money, pauses: calls about the whole fleet, and its figures for Prometheus."""

import asyncio
import time
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import EVENTS, STATE, Bus
from treadle.fleet.join import invitations
from treadle.landing import train as trains
from treadle.serve.api.board import ClaimRow
from treadle.serve.api.calls import Asking, RequestBody, call
from treadle.serve.api.orders import Reason
from treadle.serve.fleet_link import FleetLink
from treadle.wire.fleet.records import Budget, Control
from treadle.wire.fleet.train import TrainRecord

Scope = Annotated[str, Meta(min_length=1, max_length=300)]


@call("GET", "/nodes", returns=list[client.NodeRow])
async def list_nodes(asking: Asking) -> list[client.NodeRow]:
    """All nodes that were ever heard of, also those that are gone, and why each takes nothing more."""
    return await client.nodes(asking.bus)


@call("POST", "/nodes/{id}/drain", right="all", body=Reason, optional_body=True)
async def drain_node(asking: Asking) -> None:
    """Let a node finish its orders and accept no more."""
    await client.drain(asking.bus, asking.path("id"), why=asking.body.why, by=asking.by)


@call("POST", "/nodes/{id}/undrain", right="all")
async def undrain_node(asking: Asking) -> None:
    """Let a node take orders again."""
    await client.drain(asking.bus, asking.path("id"), by=asking.by, undo=True)


class NewInvitation(RequestBody, frozen=True, kw_only=True):
    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,40}$")]
    """The node that the machine will be."""


class Invited(msgspec.Struct, frozen=True, kw_only=True):
    command: str
    """What to type on that machine. It holds a code that works once, within the hour."""
    url: str
    """The address at which that machine must reach the engine."""


@call("POST", "/invitations", right="all", body=NewInvitation, returns=Invited, status=201)
async def invite_node(asking: Asking) -> Invited:
    """Make a code with which one machine joins as a node. Only possible where the fleet's private engine is."""
    code = await asyncio.to_thread(invitations.invite, asking.body.name)
    return Invited(command=f"treadle fleet join {code}", url=places.load().url)


@call("GET", "/control", returns=Control)
async def show_control(asking: Asking) -> Control:
    """Pauses, parked accounts, budgets and what is spent of them, limits."""
    return await client.control(asking.bus)


class NewPause(RequestBody, frozen=True, kw_only=True):
    scope: Scope = "fleet"
    why: Annotated[str, Meta(max_length=2000)] = ""
    now: bool = False


@call("POST", "/pause", right="all", body=NewPause, optional_body=True)
async def pause_scope(asking: Asking) -> None:
    """Start nothing more in a scope; with `now`, also hold what runs."""
    given: NewPause = asking.body
    await client.pause(asking.bus, given.scope, why=given.why, now=given.now, by=asking.by)


class ScopeOnly(RequestBody, frozen=True, kw_only=True):
    scope: Scope = "fleet"


@call("POST", "/resume", right="all", body=ScopeOnly, optional_body=True)
async def resume_scope(asking: Asking) -> None:
    """End a pause of the same scope."""
    await client.resume(asking.bus, asking.body.scope, by=asking.by)


class NewBudget(RequestBody, frozen=True, kw_only=True):
    scope: Scope = "fleet"
    usd: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    tokens: Annotated[int, Meta(ge=0, le=1 << 53)] | None = None
    share: Annotated[float, Meta(gt=0, le=1)] = Budget().share
    daily: bool = False


@call("PUT", "/budgets", right="all", body=NewBudget)
async def set_budget(asking: Asking) -> None:
    """Set the budget of the fleet or a project, and the share of it that is reserved for an order without limits."""
    given: NewBudget = asking.body
    await client.set_budget(asking.bus, **asdict(given), by=asking.by)


class NewLimit(RequestBody, frozen=True, kw_only=True):
    scope: Scope
    most: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None


@call("PUT", "/limits", right="all", body=NewLimit)
async def set_limit(asking: Asking) -> None:
    """Set how many orders may run at once for agent:A, credential:C or repo:PATH."""
    await client.set_limit(asking.bus, asking.body.scope, asking.body.most, by=asking.by)


@call("GET", "/claims", returns=list[ClaimRow])
async def list_claims(asking: Asking) -> list[ClaimRow]:
    """Who holds which files, and who waits for them."""
    return await asking.site.board.claims()


class SpentInHour(msgspec.Struct, frozen=True, kw_only=True):
    """What was used in one hour."""

    hour: float
    usd: float
    tokens: int
    orders: int


@call("GET", "/money", returns=list[SpentInHour])
async def show_money(asking: Asking) -> list[SpentInHour]:
    """What orders used, by the hour in which they last changed, for the last week."""
    return [SpentInHour(**row) for row in asking.site.fleet.require_index().spent()]


# Figures of the fleet in the text format that Prometheus reads.

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
    ("stopped", "gauge", "Whether it is stopped.", lambda each: int(each.paused is not None)),
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
