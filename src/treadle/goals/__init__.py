"""A goal in place of orders: a plan that people can read, carried out by a fleet until it is met.

waves      which orders can go together, and which claims overlap
check      what a plan will do in a repository: waves, briefs, tokens, and what is wrong with it there
imported   plans from other tools' lists and back: checklists, Markdown tasks, beads, Task Master
sources    words for a goal from an issue of a forge or a directory of tasks
history    what a goal's record becomes by what happens: pure
deciding   what is to be done next: pure
looking    what is seen of its orders
briefing   the orders that it gives, and what their agents are told
store      goals in the fleet's store
trail      what it leaves in the repository's own records: symbols, typed messages, facts
foreman    carries goals out while its node schedules (`node` is that process)
budgets    what all its orders may use together, as the fleet knows it
commands   what people ask of goals
requests   what they ask of it who may not write its record, as the page
views      a goal as the page shows it

The format itself is in `wire/goal`, so that what lies below can read it too. Orders are run by `fleet` and landed by
`landing`: nothing here runs an agent.

For Python programs, `treadle.goals` has the functions of `library`, which load on first use.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.goals.library import ConnectedGoals as ConnectedGoals
    from treadle.goals.library import GoalBudget as GoalBudget
    from treadle.goals.library import begin as begin
    from treadle.goals.library import change as change
    from treadle.goals.library import connect as connect
    from treadle.goals.library import explain as explain
    from treadle.goals.library import ls as ls
    from treadle.goals.library import markdown as markdown
    from treadle.goals.library import pause as pause
    from treadle.goals.library import plan as plan
    from treadle.goals.library import read_plan as read_plan
    from treadle.goals.library import resume as resume
    from treadle.goals.library import retry as retry
    from treadle.goals.library import say as say
    from treadle.goals.library import show as show
    from treadle.goals.library import stop as stop
    from treadle.goals.library import wait as wait
    from treadle.goals.library import watch as watch

_NAMES = frozenset(
    "ConnectedGoals GoalBudget begin change connect explain ls markdown pause plan read_plan resume retry say show stop"
    " wait watch".split()
)


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'treadle.goals' has no attribute {name!r}")
    from treadle.goals import library

    return getattr(library, name)
