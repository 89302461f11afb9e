"""The goals: which there are, one of them with its waves, and what people do about it; and the trains."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.goals import commands, foreman, views
from treadle.goals.check import check
from treadle.goals.views import GoalLine, GoalView
from treadle.goals.waves import PlanWave
from treadle.landing import views as train_views
from treadle.landing.views import TrainView
from treadle.serve.api.calls import Asking, RequestBody, call
from treadle.wire.goal.plan import Mistake
from treadle.workspace import checkouts


@call("GET", "/goals", returns=list[GoalLine])
async def list_goals(asking: Asking) -> list[GoalLine]:
    """The latest goals: where each stands, how many of its orders are there, what it asks and what it has used."""
    return await views.lines(asking.bus)


@call("GET", "/goals/{id}", returns=GoalView)
async def show_goal(asking: Asking) -> GoalView:
    """One goal with its waves: where each order stands, what it waits for, what the judge said, tokens by role."""
    return await views.view(asking.bus, asking.path("id"))


class GoalText(msgspec.Struct, frozen=True, kw_only=True):
    text: str


@call("GET", "/goals/{id}/report", returns=GoalText)
async def report_goal(asking: Asking) -> GoalText:
    """What became of a goal so far, in Markdown: what landed, by whom, tokens by role, what was dropped and why."""
    return GoalText(text=(await commands.report(asking.bus, asking.path("id"))).text)


@call("GET", "/goals/{id}/plan", returns=GoalText)
async def plan_of_goal(asking: Asking) -> GoalText:
    """A goal's plan as it is now, as `goal.toml`."""
    return GoalText(text=await views.plan_text(asking.bus, asking.path("id")))


# A plan that is written elsewhere begins here, in a repository of this machine...

PlanText = Annotated[str, Meta(min_length=1, max_length=300_000)]


class GivenPlan(RequestBody, frozen=True, kw_only=True):
    root: Annotated[str, Meta(min_length=1, max_length=4096)]
    """The repository, on the machine of this page."""
    text: PlanText
    """The whole plan, as `goal.toml`."""
    no_budget: bool = False


class PlanResult(msgspec.Struct, frozen=True, kw_only=True):
    mistakes: tuple[Mistake, ...]
    notes: tuple[Mistake, ...]
    """What is allowed and may still be an oversight."""
    waves: tuple[PlanWave, ...]


@call("POST", "/goals/check", right="all", body=GivenPlan, returns=PlanResult)
async def check_plan(asking: Asking) -> PlanResult:
    """Every mistake of a plan with its line, and its waves. Nothing is stored and nothing runs."""
    given: GivenPlan = asking.body
    user = await asyncio.to_thread(checkouts.around, given.root)
    found = await asyncio.to_thread(check, given.text, user.top, budget_required=not given.no_budget)
    return PlanResult(mistakes=found.mistakes, notes=found.notes, waves=found.waves)


class BegunGoal(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    """What it is called as soon as it begins, within seconds."""
    new: bool
    """False when this plan is under way already: it is not begun twice."""


@call("POST", "/goals", right="all", body=GivenPlan, returns=BegunGoal, status=202)
async def begin_goal(asking: Asking) -> BegunGoal:
    """Begin a plan. Where its gates say so, a person is asked before anything is placed."""
    given: GivenPlan = asking.body
    id, new = await foreman.leave_plan(
        asking.bus, given.text, given.root, by=asking.by, budget_required=not given.no_budget
    )
    return BegunGoal(id=id, new=new)


# What changes a goal is stored at once and done within seconds by the machine that has its repository...

Why = Annotated[str, Meta(max_length=1000)]


class PauseGoal(RequestBody, frozen=True, kw_only=True):
    why: Why = ""
    now: bool = False
    """Hold also what runs, at its next step."""


@call("POST", "/goals/{id}/pause", right="all", body=PauseGoal, optional_body=True, status=202)
async def pause_goal(asking: Asking) -> None:
    """Place nothing more of a goal until it is resumed."""
    given: PauseGoal = asking.body
    await foreman.leave(asking.bus, asking.path("id"), "pause", by=asking.by, text=given.why, now=given.now)


@call("POST", "/goals/{id}/resume", right="all", status=202)
async def resume_goal(asking: Asking) -> None:
    """Let a goal go on that was paused. What no one answered in time is asked again."""
    await foreman.leave(asking.bus, asking.path("id"), "resume", by=asking.by)


class StopGoal(RequestBody, frozen=True, kw_only=True):
    why: Why = ""


@call("POST", "/goals/{id}/stop", right="all", body=StopGoal, optional_body=True, status=202)
async def stop_goal(asking: Asking) -> None:
    """End a goal: what is at work is cancelled, what has landed stays."""
    await foreman.leave(asking.bus, asking.path("id"), "stop", by=asking.by, text=asking.body.why)


class SayGoal(RequestBody, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=20_000)]


@call("POST", "/goals/{id}/say", right="all", body=SayGoal, status=202)
async def say_goal(asking: Asking) -> None:
    """Tell all agents of a goal: those at work now, and those that begin later."""
    await foreman.leave(asking.bus, asking.path("id"), "say", by=asking.by, text=asking.body.text)


class ChangeGoal(RequestBody, frozen=True, kw_only=True):
    text: PlanText
    """The whole plan, as `goal.toml`."""


@call("POST", "/goals/{id}/change", right="all", body=ChangeGoal, status=202)
async def change_goal(asking: Asking) -> None:
    """Replace the plan of a goal that runs. Orders that were placed must be in it as they were."""
    await foreman.leave(asking.bus, asking.path("id"), "change", by=asking.by, text=asking.body.text)


class RetryStep(RequestBody, frozen=True, kw_only=True):
    step: Annotated[str, Meta(min_length=1, max_length=100)]
    """The order of the plan that was dropped."""


@call("POST", "/goals/{id}/retry", right="all", body=RetryStep, status=202)
async def retry_step(asking: Asking) -> None:
    """Try an order of the plan again that was dropped, from the branch as it is now."""
    await foreman.leave(asking.bus, asking.path("id"), "retry", by=asking.by, step=asking.body.step)


# The trains: what waits to land, what is being checked, what landed; landed by a button, paused and resumed.


@call("GET", "/trains", returns=list[TrainView])
async def list_trains(asking: Asking) -> list[TrainView]:
    """Every train: what is built on what, verdicts, what was left out and why, what landed and what it cost."""
    return await train_views.views(asking.bus)


class LandOrder(RequestBody, frozen=True, kw_only=True):
    branch: Annotated[str, Meta(max_length=400)] = ""
    """Empty: the branch that the order names, or the one that is checked out in its repository."""
    verify: Annotated[str, Meta(max_length=10_000)] = ""
    """Its check beside the branch's. Empty: the order's own."""
    anyway: bool = False
    """Also work that changes the files that its check is made of, or files that other programs obey."""


@call("POST", "/orders/{id}/land", right="all", body=LandOrder, optional_body=True, status=202)
async def land_order(asking: Asking) -> None:
    """Let the work of a finished order land; the train of its branch says what becomes of it."""
    given: LandOrder = asking.body
    order = await asking.order()
    await train_views.ask_to_land(asking.bus, order, **msgspec.structs.asdict(given), by=asking.by)


class PauseTrain(RequestBody, frozen=True, kw_only=True):
    why: Annotated[str, Meta(max_length=1000)] = ""


@call("POST", "/trains/{id}/pause", right="all", body=PauseTrain, optional_body=True)
async def pause_train(asking: Asking) -> None:
    """Stop a train: nothing more is built, checked or landed until it is resumed."""
    await train_views.request_pause(asking.bus, asking.path("id"), asking.body.why or "paused", asking.by)


@call("POST", "/trains/{id}/resume", right="all")
async def resume_train(asking: Asking) -> None:
    """Let a train go on that was paused, or that stopped by itself."""
    await train_views.request_pause(asking.bus, asking.path("id"), "", asking.by)
