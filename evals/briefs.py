"""How a task is given: by itself, or as one task of a plan, with a verbatim brief or with a delta brief.

The plan is for a team that does all the tasks of one size: its purpose, the rules for all work, what was done before,
and every task. A verbatim brief repeats all of it, as orchestrators do; a delta brief is what
`treadle.coordination.briefs` makes for the one task. Both state the task in the same words.
"""

import tempfile
from pathlib import Path

from evals.task import Task
from treadle.coordination import briefs
from treadle.coordination.capsules import Capsules
from treadle.coordination.ledger import Symbols
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError

CRITERIA = {
    "C1": "What was asked is done completely, and nothing else is changed.",
    "C2": "Existing names, formats and files stay as they are unless the task says otherwise.",
    "C3": "Python code runs on Python 3.11 with the standard library alone.",
}
WHY = """\
The team takes over a number of small repositories that no one has looked after for a year. Each has one thing that
users have asked for again and again. We do these first, because they are small and because each of them tells us
how the repository is built and tested. Nothing is rewritten. Work that turns out to be larger than it looked is
reported and not begun. Reviewers look at the difference and at nothing else, so it must be small."""
DONE = "Wave 1 made every repository start from a clean clone: files committed, Python 3.11, no dependencies."
WHERE = "In the repository's own directory; paths in a task are relative to it."


def told(task: Task, brief: str, repository: Path) -> str:
    if not brief:
        return task.prompt
    if brief == "verbatim":
        return f"{plan(task)}\n\nYou do the task {task.name}, now:\n{task.prompt}"
    if brief == "delta":
        return _delta(task, repository)
    raise ConfigError(f"there is no brief {brief!r}", hint="verbatim or delta")


def plan(task: Task) -> str:
    """The whole plan, of which this task is one."""
    from evals.tasks import select

    criteria = "\n".join(f"- {name}: {text}" for name, text in CRITERIA.items())
    tasks = "\n".join(f"- {one.name} ({one.kind}): {one.prompt}" for one in select(task.size))
    return (
        f"# Plan\n\n## Why\n\n{WHY}\n\n## What holds for all work\n\n{criteria}\n\n## Done so far\n\n{DONE} {WHERE}\n\n"
        f"## Tasks of this wave\n\n{tasks}"
    )


def _delta(task: Task, repository: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="treadle-plan-") as place:
        planning = Planning(place, project=str(repository))
        for name, text in CRITERIA.items():
            Symbols(planning).set(name, text)
        Capsules(planning).write("w1", DONE, where=WHERE)
        return briefs.build(planning, task.name, task.prompt, ",".join(CRITERIA), "w1", strict=True)
