"""The briefs of a wave: several tasks that are given out together, in texts that all begin alike.

A provider charges about a tenth of the price for the beginning of a prompt that it has just seen. So what all tasks of
a wave need (the invariants themselves, the symbols, the capsules) comes first, in the same bytes for each, and each
task's own part comes last. `briefs.build` briefs a single task and leaves out what it does not name.
"""

from collections.abc import Sequence

from treadle.coordination.briefs import UNRESOLVED, indented, invariants_fault, section
from treadle.coordination.capsules import Capsules, compact, split_ids, within
from treadle.coordination.planning import Planning
from treadle.coordination.table import Symbols
from treadle.errors import ConfigError, NotFound


class WaveTask:
    """One task of a wave; symbols and capsules are comma-separated."""

    def __init__(self, task: str, spec: str, symbols: str = "", capsules: str = "") -> None:
        self.task, self.spec = task, spec
        self.symbols, self.capsules = split_ids(symbols), split_ids(capsules)


class Wave:
    def __init__(self, shared: str, own: dict[str, str]) -> None:
        self.shared = shared
        """The common beginning of every brief."""
        self.own = own
        """What follows it, by task."""

    def brief(self, task: str) -> str:
        if task not in self.own:
            raise NotFound(f"no task {task} in this wave", hint=f"it has {', '.join(self.own)}")
        return self.shared + self.own[task]


def build_wave(
    planning: Planning, tasks: Sequence[WaveTask], invariants: str = "", *, budget: int | None = None
) -> Wave:
    """The briefs of a wave, noted in the log."""
    try:
        wave = lay_out(planning, tasks, invariants, budget=budget)
    except NotFound as error:
        planning.note("brief", "refused", f"wave {error.message}")
        raise
    planning.note("brief", "wave", f"tasks={','.join(one.task for one in tasks)}")
    return wave


def lay_out(planning: Planning, tasks: Sequence[WaveTask], invariants: str = "", *, budget: int | None = None) -> Wave:
    """Anything that cannot be resolved refuses the whole wave, because an agent cannot notice what its brief lacks."""
    if not tasks or not all(one.task and one.spec for one in tasks) or len({one.task for one in tasks}) < len(tasks):
        raise ConfigError("a wave needs tasks, each with an id of its own and a spec")
    names = list(dict.fromkeys(name for one in tasks for name in one.symbols))
    values = {name: Symbols(planning).find(name) for name in names}
    lost = [f"symbol {name}" for name, value in values.items() if value is None]
    lost += [why] if invariants and (why := invariants_fault(planning.project, invariants)) else []
    if lost:
        raise NotFound(f"the briefs would be incomplete: {', '.join(lost)}", hint="resolve these first")
    wanted = list(dict.fromkeys(name for one in tasks for name in one.capsules))
    closure, rest = Capsules(planning).closure(wanted), ""
    if budget is not None:
        closure, rest = within(closure, wanted, budget)
    parts = ["# The same for every task of this wave; yours is at the end. Ask for what is not here by its id.\n"]
    if invariants:
        parts.append(f"INVARIANTS:\n{indented(section(planning.project, invariants))}")
    if values:
        rows = "\n".join(f"{name} = {value or UNRESOLVED}" for name, value in values.items())
        parts.append(f"SYMBOLS:\n{indented(rows)}")
    if closure:
        capsules = [compact(name, text) for name, text in closure.items()]
        parts.append("CONTEXT CAPSULES (oldest first):\n" + indented("\n".join([*capsules, *filter(None, [rest])])))
    return Wave("\n".join(parts) + "\n", {one.task: _own(one) for one in tasks})


def _own(one: WaveTask) -> str:
    needs = ", ".join([*one.symbols, *one.capsules])
    return f"YOUR TASK {one.task}{f' (see {needs})' if needs else ''}:\n{indented(one.spec)}"
