"""Plans from other tools' lists, and back: checklists, Markdown tasks, beads (JSON lines) and Task Master (JSON); and
the words of a goal from a forge's issue or a directory.

What is done already is left out, and what waits for it waits no longer. Other tools describe acceptance in prose; it
stays in the task, because turning it into a command would be a guess. All of it is pure: text in, plan or text out.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.errors import ConfigError
from treadle.landing.forge.branch import KINDS, forge_of
from treadle.wire.goal.plan import GoalPlan, PlannedOrder
from treadle.workspace import checkouts
from treadle.workspace.remotes import Remote

ListKind: TypeAlias = Literal["checklist", "tasks", "beads", "taskmaster"]
_ITEM = re.compile(r"(\s*)(?:[-*+]|\d+[.)])\s+\[([ xX])\]\s+(.*)")
_DONE = {"closed", "tombstone", "done", "cancelled", "completed"}
_BLOCKS = {"blocks", "conditional-blocks", "waits-for"}


def kind_of(name: str, text: str) -> ListKind:
    """What a file holds, by its contents. Raises ConfigError when that cannot be said."""
    if any(_ITEM.match(line) for line in text.split("\n")):
        return "checklist"
    try:
        first = json.loads(text.strip().split("\n", 1)[0])
        if isinstance(first, dict) and "id" in first and "title" in first:
            return "beads"
    except ValueError:
        pass
    try:
        if _tagged(json.loads(text)) is not None:
            return "taskmaster"
    except ValueError:
        pass
    hint = "a checklist has lines like `- [ ] do this`; for a directory of Markdown tasks name the directory"
    raise ConfigError(f"{name} is no list of tasks that is known here", hint=hint)


def read_list(kind: ListKind, name: str, text: str) -> GoalPlan:
    """The plan in one file of another tool."""
    if kind == "checklist":
        return _checklist(name, text)
    if kind == "beads":
        return _beads(name, text)
    if kind == "taskmaster":
        return _taskmaster(name, text)
    return read_tasks(name, {name: text})


def read_tasks(name: str, files: Mapping[str, str]) -> GoalPlan:
    """A directory of Markdown files, one for each task, in the order of their names."""
    ids = _Ids()
    orders = []
    for path, text in sorted(files.items()):
        title = _heading(text) or path.removesuffix(".md")
        orders.append(PlannedOrder(id=ids.make(path.removesuffix(".md")), title=title, task=text.strip()))
    return _plan(name, name, orders)


def _checklist(name: str, text: str) -> GoalPlan:
    """Each item at the left is an order; what is indented below it belongs to its task."""
    ids, orders, margin = _Ids(), list[tuple[bool, str, list[str]]](), None
    for line in text.split("\n"):
        item = _ITEM.match(line)
        indent = len(line) - len(line.lstrip())
        if item and (margin is None or indent <= margin):
            margin = indent
            orders.append((item[2] != " ", item[3].strip(), []))
        elif orders and (indent > (margin or 0) or not line.strip()):
            orders[-1][2].append(line.strip())
        elif line.strip():
            margin = None if not orders else margin
    return _plan(
        name,
        _heading(text) or name,
        [
            PlannedOrder(id=ids.make(title), task="\n".join([title, *more]).strip())
            for done, title, more in orders
            if not done
        ],
    )


def _beads(name: str, text: str) -> GoalPlan:
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            found.append(_table(line, f"{name}, line {number}"))
    ids, open_ = _Ids(), [each for each in found if each.get("status") not in _DONE]
    epics = [each for each in open_ if each.get("issue_type") == "epic"]
    work = [each for each in open_ if each.get("issue_type", "task") in ("task", "bug", "feature", "chore")]
    names = {str(each.get("id")): ids.make(str(each.get("id"))) for each in work}
    orders = []
    for each in work:
        links = [link for link in each.get("dependencies") or () if isinstance(link, dict)]
        needs = [names.get(str(link.get("depends_on_id"))) for link in links if link.get("type") in _BLOCKS]
        origin = [names.get(str(link.get("depends_on_id"))) for link in links if link.get("type") == "discovered-from"]
        orders.append(
            PlannedOrder(
                id=names[str(each.get("id"))],
                title=str(each.get("title", "")),
                task=_prose(each, "title", "description", "design", "acceptance_criteria", "notes"),
                after=tuple(dict.fromkeys(filter(None, needs))),
                discovered_from=next(filter(None, origin), ""),
            )
        )
    return _plan(name, str(epics[0].get("title")) if len(epics) == 1 else name, orders)


def _taskmaster(name: str, text: str) -> GoalPlan:
    tasks = _tagged(json.loads(text))
    if tasks is None:
        raise ConfigError(f"{name} has no list `tasks`", hint="Task Master writes it to .taskmaster/tasks/tasks.json")
    ids, work = _Ids(), [each for each in tasks if isinstance(each, dict) and each.get("status") not in _DONE]
    names = {str(each.get("id")): ids.make(f"t{each.get('id')}") for each in work}
    orders = []
    for each in work:
        steps = [step for step in each.get("subtasks") or () if isinstance(step, dict)]
        listed = [f"- {step.get('title', '')}" for step in steps if step.get("status") not in _DONE]
        needs = [names.get(str(need)) for need in each.get("dependencies") or ()]
        orders.append(
            PlannedOrder(
                id=names[str(each.get("id"))],
                title=str(each.get("title", "")),
                task="\n".join([_prose(each, "title", "description", "details", "testStrategy"), *listed]),
                after=tuple(dict.fromkeys(filter(None, needs))),
            )
        )
    return _plan(name, name, orders)


def _tagged(document: Any) -> list[Any] | None:
    """The tasks of a Task Master file: its own list, or that of its first tag."""
    if not isinstance(document, dict):
        return None
    for part in (document, document.get("master"), *document.values()):
        if isinstance(part, dict) and isinstance(part.get("tasks"), list):
            found: list[Any] = part["tasks"]
            return found
    return None


def _plan(source: str, goal: str, orders: Sequence[PlannedOrder]) -> GoalPlan:
    if not orders:
        raise ConfigError(f"{source} has no open tasks", hint="tasks that are done are left out")
    return GoalPlan(goal=goal, order=tuple(orders), source=source)


def _table(line: str, place: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{place}: this is not JSON: {error}") from None
    if not isinstance(found, dict) or "id" not in found:
        raise ConfigError(f"{place}: this is no issue with an id")
    return found


def _prose(table: Mapping[str, Any], *names: str) -> str:
    """The texts of these fields, each once: a short task often says the same in its title and its description."""
    return "\n\n".join(dict.fromkeys(str(table[name]).strip() for name in names if table.get(name)))


def _heading(text: str) -> str:
    found = re.search(r"^#\s+(.+)$", text, re.M)
    return found[1].strip() if found else ""


class _Ids:
    """Makes ids from titles, each only once."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def make(self, text: str) -> str:
        plain = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")[:32].rstrip("-_") or "task"
        made, number = plain, 2
        while made in self._used:
            made, number = f"{plain}-{number}", number + 1
        self._used.add(made)
        return made


def to_toml(plan: GoalPlan) -> str:
    """The plan as `goal.toml`, as a person would lay it out."""
    import tomlkit

    document = tomlkit.document()
    fields = msgspec.to_builtins(plan)
    for name in ("format", "order"):
        fields.pop(name, None)
    for name, value in fields.items():
        document.add(name, _inline(value) if isinstance(value, dict) else _text(value))
    orders = tomlkit.aot()
    for order in plan.order:
        table = tomlkit.table()
        for name, value in msgspec.to_builtins(order).items():
            table.add(name, _text(value))
        orders.append(table)
    document.add("order", orders)
    return tomlkit.dumps(document)


def _text(value: Any) -> Any:
    """A text of several lines is written as such where that changes nothing."""
    import tomlkit

    plain = isinstance(value, str) and value.replace("\n", "").isprintable() and not set('"\\') & set(value)
    if not plain or "\n" not in value:
        return value
    made = tomlkit.string(value, multiline=True)
    return made if tomlkit.parse(f"x = {made.as_string()}")["x"] == value else value


def _inline(value: Mapping[str, Any]) -> Any:
    import tomlkit

    table = tomlkit.inline_table()
    table.update(value)
    return table


# Where the words of a goal come from that no person has written for us: an issue of a forge, a directory of tasks.

_NAMED = re.compile(rf"((?:{'|'.join(KINDS)})(?::[^#\s]+)?)#(\d+)")
_GITHUB = re.compile(r"(https://[\w.-]+/[\w.-]+/[\w.-]+)/issues/(\d+)/?")
_GITLAB = re.compile(r"(https://[\w.-]+(?:/[\w.-]+){2,})/-/(?:issues|work_items)/(\d+)/?")


def is_issue(source: str) -> bool:
    return any(form.fullmatch(source) for form in (_NAMED, _GITHUB, _GITLAB))


async def issue(source: str, root: str, token: str = "") -> str:
    """The words of an issue, its title first: `github#12` of the repository's remote `origin`, `github:OWNER/NAME#12`,
    or its address, and the same with `gitlab` and `forgejo`. `token` names the variable that holds the token."""
    if found := _GITLAB.fullmatch(source):
        forge = forge_of("gitlab", token, found[1])
    elif found := _GITHUB.fullmatch(source):
        forgejo = source.startswith(f"https://{KINDS['forgejo'].public}/")
        forge = forge_of("forgejo" if forgejo else "github", token, found[1])
    else:
        found = _NAMED.fullmatch(source)
        assert found is not None, "ask is_issue first"
        address = "" if ":" in found[1] else (await asyncio.to_thread(_origin, root))
        forge = forge_of(found[1], token, address)
    there = await forge.issue(int(found[2]))
    return f"{there.title}\n\n{there.body}".strip()


def _origin(root: str) -> str:
    return Remote(checkouts.around(root), "origin").address


def tasks(name: str, files: Mapping[str, str]) -> str:
    """The words of a directory of Markdown tasks: its name as the goal, then each file under its own name."""
    parts = [f"{file}:\n\n{text.strip()}" for file, text in sorted(files.items())]
    return "\n\n".join([f"All that the tasks in {name} ask for", *parts])
