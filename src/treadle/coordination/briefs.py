"""Delta briefs: all that a spawned agent is told. The task, the symbols it names, what it builds on; not the plan."""

import os
from collections.abc import Sequence

from treadle.coordination.capsules import Capsules, compact, split_ids
from treadle.coordination.ledger import Symbols
from treadle.coordination.planning import Planning, read_text
from treadle.errors import ConfigError, NotFound

UNRESOLVED = "<UNRESOLVED>"


def build(
    planning: Planning,
    task: str,
    spec: str,
    symbols: str = "",
    capsules: str = "",
    invariants: str = "",
    *,
    strict: bool = False,
) -> str:
    """The brief. With `strict`, an unresolved symbol, capsule or invariants reference raises NotFound.

    An agent cannot notice what is missing from its brief, so an unknown capsule always raises.
    """
    if not task or not spec:
        raise ConfigError("a brief needs a task and its spec", hint='give --task ID and --spec "..."')
    spec = spec_at(planning.project, spec)
    detail = f"task={task} symbols={symbols} capsules={capsules}"
    values = {name: Symbols(planning).find(name) for name in split_ids(symbols)}
    lost = [f"symbol {name}" for name, value in values.items() if value is None]
    if invariants and (why := invariants_fault(planning.project, invariants)):
        lost.append(why)
    if strict and lost:
        planning.note("brief", "refused", f"{detail} unresolved={', '.join(lost)}")
        raise NotFound(f"the brief for task {task} would be incomplete: {', '.join(lost)}", hint="resolve these first")
    try:
        closure = Capsules(planning).closure(split_ids(capsules))
    except NotFound as error:
        planning.note("brief", "refused", f"{detail} {error.message}")
        raise
    shown = [compact(name, text) for name, text in closure.items()]
    brief = _layout(task, spec, values, shown, invariants)
    planning.note("brief", "build", detail)
    return brief


def _layout(task: str, spec: str, values: dict[str, str | None], shown: list[str], invariants: str) -> str:
    parts = [f"=== DELTA BRIEF — task {task} ===\n# Ask for what is not here by its id.\n"]
    parts.append(f"TASK SPEC:\n{indented(spec)}")
    if values:
        rows = "\n".join(f"{name} = {UNRESOLVED if value is None else value}" for name, value in values.items())
        parts.append(f"SYMBOLS (referenced only):\n{indented(rows)}")
    if shown:
        parts.append("CONTEXT CAPSULES (oldest first):\n" + indented("\n".join(shown)))
    if invariants:
        parts.append(f"INVARIANTS REF: {invariants}\n")
    return "\n".join(parts) + "\n"


def indented(text: str) -> str:
    return "".join(f"  {line}\n" if line else "\n" for line in text.rstrip("\n").split("\n"))


def invariants_fault(project: str, reference: str) -> str | None:
    why = reference_fault(project, reference)
    return why if why is None or why.startswith("heading") else f"invariants {why}"


def reference_fault(project: str, reference: str) -> str | None:
    """Why `path` or `path#heading` cannot be found; None when it can."""
    name, _, anchor = reference.partition("#")
    text = read_text(os.path.join(project, name)) if not os.path.isdir(os.path.join(project, name)) else None
    if text is None:
        return f"file {name}"
    if anchor and anchor not in anchors(text):
        return f"heading #{anchor} in {name}"
    return None


def anchors(markdown: str) -> set[str]:
    """The anchors of a Markdown text's headings."""
    return {slug for slug, _, _ in headings(markdown)}


def headings(markdown: str) -> list[tuple[str, int, int]]:
    """Each heading's anchor, formed and numbered as on GitHub, its line and its level."""
    rows: list[tuple[str, int, int]] = []
    found: dict[str, int] = {}
    fenced = False
    for row, line in enumerate(markdown.splitlines()):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        head, _, title = line.partition(" ")
        if fenced or not title or set(head) != {"#"} or len(head) > 6:
            continue
        letters = (char for char in title.strip(" #").lower() if char.isalnum() or char in " -_")
        slug = "".join(letters).replace(" ", "-")
        number = found.get(slug, -1) + 1
        found[slug] = number
        if number:
            found.setdefault(f"{slug}-{number}", 0)
        rows.append((f"{slug}-{number}" if number else slug, row, len(head)))
    return rows


def section(project: str, reference: str) -> str:
    """The text at `path` or `path#heading`: the whole file, or the section up to the next heading of its level."""
    name, _, anchor = reference.partition("#")
    text = read_text(os.path.join(project, name)) or ""
    if not anchor:
        return text
    lines, found = text.splitlines(), headings(text)
    begin, level = next((row, level) for slug, row, level in found if slug == anchor)
    ends = [row for _, row, other in found if row > begin and other <= level]
    return "\n".join(lines[begin : ends[0] if ends else None])


def spec_at(project: str, spec: str) -> str:
    """The section that a spec names as `FILE.md#HEADING`; any other text is the spec itself.

    Raises NotFound if it leads nowhere, because the agent that gets it could not notice.
    """
    name, mark, anchor = spec.partition("#")
    if not mark or not anchor or not name.endswith(".md") or any(char.isspace() for char in spec):
        return spec
    if why := reference_fault(project, spec):
        raise NotFound(f"the spec does not exist: there is no {why}", hint="a heading is named as in links on GitHub")
    return section(project, spec)


# The briefs of a wave: several tasks that are given out together, in texts that all begin alike.
#
# A provider charges about a tenth of the price for the beginning of a prompt that it has just seen. So what all tasks
# of a wave need (the invariants themselves, the symbols, the capsules) comes first, in the same bytes for each, and
# each task's own part comes last. `briefs.build` briefs a single task and leaves out what it does not name.


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


def build_wave(planning: Planning, tasks: Sequence[WaveTask], invariants: str = "") -> Wave:
    """The briefs of a wave, noted in the log."""
    try:
        wave = lay_out(planning, tasks, invariants)
    except NotFound as error:
        planning.note("brief", "refused", f"wave {error.message}")
        raise
    planning.note("brief", "wave", f"tasks={','.join(one.task for one in tasks)}")
    return wave


def lay_out(planning: Planning, tasks: Sequence[WaveTask], invariants: str = "") -> Wave:
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
    closure = Capsules(planning).closure(wanted)
    parts = ["# The same for every task of this wave; yours is at the end. Ask for what is not here by its id.\n"]
    if invariants:
        parts.append(f"INVARIANTS:\n{indented(section(planning.project, invariants))}")
    if values:
        rows = "\n".join(f"{name} = {value or UNRESOLVED}" for name, value in values.items())
        parts.append(f"SYMBOLS:\n{indented(rows)}")
    if closure:
        capsules = [compact(name, text) for name, text in closure.items()]
        parts.append("CONTEXT CAPSULES (oldest first):\n" + indented("\n".join(capsules)))
    return Wave("\n".join(parts) + "\n", {one.task: _own(one) for one in tasks})


def _own(one: WaveTask) -> str:
    needs = ", ".join([*one.symbols, *one.capsules])
    return f"YOUR TASK {one.task}{f' (see {needs})' if needs else ''}:\n{indented(one.spec)}"
