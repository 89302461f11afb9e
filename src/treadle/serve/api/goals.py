"""The goals: which there are, and one of them with its waves."""

from treadle.goals import views
from treadle.goals.views import GoalLine, GoalView
from treadle.serve.api.calls import Asking, call


@call("GET", "/goals", returns=list[GoalLine])
async def list_goals(asking: Asking) -> list[GoalLine]:
    """The latest goals: where each stands, how many of its orders are there, what it asks and what it has used."""
    return await views.lines(asking.bus)


@call("GET", "/goals/{id}", returns=GoalView)
async def show_goal(asking: Asking) -> GoalView:
    """One goal with its waves: where each order stands, what it waits for, what the judge said, tokens by role."""
    return await views.view(asking.bus, asking.path("id"))
