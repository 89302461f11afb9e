"""A goal in place of orders: a plan that people can read, carried out by a fleet until it is met.

Words:
    plan       `goal.toml`: what is wanted, how it is proved, and the orders that lead there (`wire/goal`)
    wave       orders that can run together: what they need has landed, and their claims do not overlap
    happening  one thing that happened to a goal; the record is what all happenings lead to
    foreman    carries goals out while its node schedules
    reviewer, judge   agents that look without writing and give a typed answer: about one order, about the goal

Flow: a plan comes from a person or an agent (`planner`) and is checked in its repository (`check`, `waves`).
`commands.begin` stores it. The foreman looks at the orders (`observation`), `deciding` gives the next step, `store`
writes it as happenings with the new record, and only then the step is done: an order is submitted with its brief
(`briefing`), landed, reviewed, or a person is asked. `views` shows a goal to people.

Promises, and who keeps each:
    Decisions are pure: the same record, plan and observation give the same step.               deciding
    What is decided is stored before it is done, so a kill or a second foreman repeats nothing. store, foreman
    The history has no gap and no branch; reading it again gives the same record.               store
    Every goal ends, or pauses with a reason: tries, reviews, rounds and budget are bounded.    deciding
    A goal is met when `done` passes on the branch and the judge agrees.                        deciding
    A plan made from a text from outside runs only after a person agreed.                       planner
    A plan with a mistake does not run.                                                         check, commands

`serve` and `cli` import it; it imports `landing`, `fleet`, `coordination` and what is below. Nothing here runs an
agent. For Python programs, `treadle.goals` has the functions of `commands`, loaded on use.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.goals.commands import ConnectedGoals as ConnectedGoals
    from treadle.goals.commands import GoalBudget as GoalBudget
    from treadle.goals.commands import connect as connect
    from treadle.goals.commands import read_plan as read_plan

_NAMES = ("ConnectedGoals", "GoalBudget", "connect", "read_plan")


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'treadle.goals' has no attribute {name!r}")
    from treadle.goals import commands

    return getattr(commands, name)
