"""The results of orders: read as a diff, sent back with comments, merged and verified, or thrown away."""

import asyncio
import secrets
import time
from typing import Annotated, Any

from msgspec import Meta
from starlette.responses import Response

from treadle.errors import ConfigError, NotFound, TreadleError
from treadle.fleet import client, results
from treadle.fleet.client import Given
from treadle.fleet.results import Comment
from treadle.landing import merging
from treadle.landing.merging import Merging
from treadle.serve.api.calls import Asking, RequestBody, call
from treadle.serve.colours import ShownChanges, shown

MERGES_MAX = 50


@call("GET", "/orders/{id}/diff", returns=bytes)
async def show_diff(asking: Asking) -> Response:
    """What an order changed, as a patch in plain text."""
    data = await results.diff(asking.bus, await asking.order())
    return Response(data, media_type="text/plain; charset=utf-8")


@call("GET", "/orders/{id}/changes", returns=ShownChanges)
async def show_changes(asking: Asking) -> ShownChanges:
    """What an order changed, file by file and line by line, with the words of each language marked."""
    data = await results.diff(asking.bus, await asking.order())
    return await asyncio.to_thread(shown, data.decode("utf-8", "replace"))


class SentBack(RequestBody, frozen=True, kw_only=True):
    comments: Annotated[tuple[Comment, ...], Meta(max_length=500)] = ()
    """On lines of the new files, or, without a path, on the whole work."""


@call("POST", "/orders/{id}/send-back", right="all", body=SentBack, returns=Given, status=201)
async def send_back(asking: Asking) -> Given:
    """Have finished work redone by the same agent, starting from what it left, with all comments at once."""
    return await results.send(asking.bus, await asking.order(), asking.body.comments, by=asking.by)


@call("POST", "/orders/{id}/reviewed", right="answer")
async def mark_reviewed(asking: Asking) -> None:
    """Note that a person has seen the result of the order; then it needs no one."""
    name = await asking.order()
    await client.note_result(asking.bus, name, "seen", {"reviewed": asking.by}, by=asking.by)


@call("POST", "/orders/{id}/discard", right="all")
async def discard_order(asking: Asking) -> None:
    """Throw the work of an order away: its branch goes, receipt and patch stay."""
    await results.discard(asking.bus, await asking.order(), by=asking.by)


class NewMerge(RequestBody, frozen=True, kw_only=True):
    orders: Annotated[list[str], Meta(min_length=1, max_length=100)]
    into: Annotated[str, Meta(max_length=4096)] = ""
    """A worktree on the server's machine; empty means the directory that the first order was given for."""
    verify: Annotated[str, Meta(max_length=10_000)] | None = None
    """Run on each merge before the branch moves; one that fails stops there. By default, the orders' own check."""
    anyway: bool = False
    """Also work that changes files which other programs obey."""


@call("POST", "/merges", right="all", body=NewMerge, returns=Merging, status=202)
async def start_merge(asking: Asking) -> Merging:
    """Merge finished orders in the background and verify each; look at the progress with its id."""
    given: NewMerge = asking.body
    names = [await client.resolve(asking.bus, name) for name in given.orders]
    spec = await client.get_spec(asking.bus, names[0])
    into = given.into or spec.root
    if not into:
        raise ConfigError("it is not known where to merge to", hint="name a worktree on the server's machine: into")
    verify = spec.verify if given.verify is None else given.verify
    made = Merging(
        id=secrets.token_hex(6),
        orders=names,
        into=into,
        verify=verify,
        anyway=given.anyway,
        by=asking.by,
        started=time.time(),
    )
    asking.site.merges[made.id] = made
    while len(asking.site.merges) > MERGES_MAX:
        del asking.site.merges[next(iter(asking.site.merges))]
    asking.site.start_task(_merge(asking, made))
    return made


async def _merge(asking: Asking, made: Merging) -> None:
    try:
        for name in made.orders:
            made.at = name
            asking.site.board.wake()
            steps = await merging.merge(
                asking.bus, [name], made.into, verify=made.verify, by=made.by, anyway=made.anyway
            )
            made.steps = [*made.steps, *steps]
            if not all(step.merged for step in steps):
                break
        made.state = "merged" if all(step.merged for step in made.steps) else "stopped"
    except TreadleError as error:
        made.state, made.problem = "stopped", str(error)
    except asyncio.CancelledError:
        made.state, made.problem = "stopped", "the server was stopped"
        raise
    finally:
        made.at, made.ended = "", time.time()
        asking.site.board.wake()


@call("GET", "/merges/{id}", returns=Merging)
async def show_merge(asking: Asking) -> Merging:
    """How far a merge has come."""
    found = asking.site.merges.get(asking.path("id"))
    if found is None:
        raise NotFound("there is no such merge; only the last ones of this server are known")
    return found


@call("GET", "/merges", returns=list[Merging])
async def list_merges(asking: Asking) -> list[Any]:
    """The merges that this server has run, the latest first."""
    return list(asking.site.merges.values())[::-1]
