"""The trains: what waits to land, what is being checked, what landed; landed by a button, paused and resumed."""

from typing import Annotated

from msgspec import Meta

from treadle.landing import views
from treadle.landing.views import TrainView
from treadle.serve.api.calls import Asking, RequestBody, call


@call("GET", "/trains", returns=list[TrainView])
async def list_trains(asking: Asking) -> list[TrainView]:
    """Every train: what is built on what, verdicts, what was left out and why, what landed and what it cost."""
    return await views.views(asking.bus)


class LandOrder(RequestBody, frozen=True, kw_only=True):
    branch: Annotated[str, Meta(max_length=400)] = ""
    """Empty: the branch that the order names, or the one that is checked out in its repository."""
    verify: Annotated[str, Meta(max_length=10_000)] = ""
    """The branch's check, where it has none yet. Empty: the order's own."""


@call("POST", "/orders/{id}/land", right="all", body=LandOrder, optional_body=True, status=202)
async def land_order(asking: Asking) -> None:
    """Let the work of a finished order land; the train of its branch says what becomes of it."""
    given: LandOrder = asking.body
    await views.ask_to_land(asking.bus, await asking.order(), branch=given.branch, verify=given.verify, by=asking.by)


class PauseTrain(RequestBody, frozen=True, kw_only=True):
    why: Annotated[str, Meta(max_length=1000)] = ""


@call("POST", "/trains/{id}/pause", right="all", body=PauseTrain, optional_body=True)
async def pause_train(asking: Asking) -> None:
    """Stop a train: nothing more is built, checked or landed until it is resumed."""
    await views.request_pause(asking.bus, asking.path("id"), asking.body.why or "paused", asking.by)


@call("POST", "/trains/{id}/resume", right="all")
async def resume_train(asking: Asking) -> None:
    """Let a train go on that was paused, or that stopped by itself."""
    await views.request_pause(asking.bus, asking.path("id"), "", asking.by)
