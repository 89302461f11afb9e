"""Delta briefs: all that a spawned agent is told. The task, the symbols it names, what it builds on; not the plan."""

import os

from treadle.coordination.capsules import Capsules, compact, split_ids, within
from treadle.coordination.planning import Planning, read_text
from treadle.coordination.table import Symbols
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
    budget: int | None = None,
) -> str:
    """The brief. With `strict`, an unresolved symbol, capsule or invariants reference raises NotFound.

    An agent cannot notice what is missing from its brief, so an unknown capsule always raises. `budget` is how many
    tokens its capsules may take; those that do not fit are listed by id.
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
    rest = ""
    if budget is not None:
        closure, rest = within(closure, split_ids(capsules), budget)
    shown = [compact(name, text) for name, text in closure.items()]
    brief = _layout(task, spec, values, [*shown, *filter(None, [rest])], invariants)
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
        raise NotFound(f"the spec leads nowhere: there is no {why}", hint="a heading is named as in links on GitHub")
    return section(project, spec)
