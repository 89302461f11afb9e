"""The plan of a goal: its fields, and how it is read from a text. Waves, briefs and costs are worked out in `goals`."""

import difflib
import re
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec

FORMAT = 1
Gate: TypeAlias = Literal["plan", "wave", "order", "land", "none"]
Size: TypeAlias = Literal["s", "m", "l"]
OnRed: TypeAlias = Literal["author", "reconciler", "person", "drop"]
ROLES = ("planner", "worker", "reviewer", "reconciler", "judge")


class GoalBudget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """At any of these limits the goal pauses and asks. None means no limit of this kind."""

    tokens: int | None = None
    usd: float | None = None
    hours: float | None = None
    orders: int | None = None


class PlannedOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    """Short and unique in the plan; the fleet's id is made from it, so submitting twice changes nothing."""
    task: str
    title: str = ""
    after: tuple[str, ...] = ()
    """Starts when these have landed."""
    wave: int = 0
    """Starts no earlier than in this wave. Waves are computed; this can only delay."""
    claims: tuple[str, ...] = ()
    """The files that it expects to change."""
    symbols: tuple[str, ...] = ()
    """Names of the repository's symbol table that its brief explains."""
    accept: tuple[str, ...] = ()
    """Commands that must fail before the work and pass after it."""
    already: bool = False
    """The commands in `accept` may pass before the work, as in a pure rewrite."""
    verify: str = ""
    """A narrower check before the plan's own."""
    size: Size = "m"
    on_red: OnRed = "author"
    """Who fixes it when it fails its checks or conflicts."""
    land: bool = True
    """False for research, whose result is only its answer."""
    gates: tuple[str, ...] = ()
    agent: str = ""
    """Instead of the worker that `roles` names."""
    model: str = ""
    discovered_from: str = ""
    """The order during which it was found to be needed."""


class GoalPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    goal: str
    order: tuple[PlannedOrder, ...]
    format: int = FORMAT
    done: str = ""
    """One command that proves the whole."""
    branch: str = "main"
    verify: str = ""
    setup: str = ""
    invariants: str = ""
    """FILE or FILE#heading, with which every brief begins."""
    budget: GoalBudget | None = None
    gates: tuple[str, ...] = ("plan",)
    """Where a person agrees: plan, wave, order, land or none; or agent:reviewer, where another agent does."""
    roles: Mapping[str, str] = {}
    fallback: tuple[str, ...] = ()
    """Agents that go on with an order when its own cannot."""
    mode: str = ""
    """What workers may do without a question: suggest, auto-edit or full-auto. Empty: the fleet's default."""
    source: str = ""
    """Where the plan came from, if not from a person's own hand. Such a plan always stops at the gate `plan`."""

    @property
    def gated(self) -> tuple[str, ...]:
        """The gates that apply: text from outside is never carried out before a person has read the plan."""
        return ("plan", *(gate for gate in self.gates if gate not in ("plan", "none"))) if self.source else self.gates


# Where in a TOML text its tables and keys stand: parsers return values without their lines.
#
# Only for texts that a parser has accepted, so nothing is checked here: strings, comments and brackets are stepped
# over, and what begins a line outside of them is a table's header or a key.

_SKIPPED = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'  # a string of several lines may end in one or two quotes of its own
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[{]|[\]}]|\n",
    re.S,
)
_HEADER = re.compile(r"[ \t]*(\[\[?)[ \t]*([^\]\n#]+?)[ \t]*\]")
_KEY = re.compile(r"[ \t]*([\w.\"' \t-]+?)[ \t]*=")


def lines_of(text: str) -> dict[str, int]:
    """The line of each table and key, by its path: `goal`, `order[2]`, `order[2].claims`, `budget.usd`."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    table = ""
    for line, start in _starts(text):
        if header := _HEADER.match(text, start):
            name = _plain(header[2])
            if header[1] == "[[":
                table = f"{name}[{counts.get(name, 0)}]"
                counts[name] = counts.get(name, 0) + 1
            else:
                table = name
            found.setdefault(table, line)
        elif key := _KEY.match(text, start):
            name = _plain(key[1])
            found.setdefault(f"{table}.{name}" if table else name, line)
    return found


def _plain(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))


def _starts(text: str) -> Iterator[tuple[int, int]]:
    """The number and position of each line that begins outside of strings, arrays and inline tables."""
    line, depth, header = 1, 0, _HEADER.match(text)
    yield 1, 0
    place = header.end() if header else 0
    while token := _SKIPPED.search(text, place):
        place = token.end()
        what = token[0]
        if what in "[{":
            depth += 1
        elif what in "]}":
            depth -= 1
        line += what.count("\n")
        if what == "\n" and depth <= 0:
            depth = 0
            yield line, place
            if header := _HEADER.match(text, place):  # its brackets do not nest
                place = header.end()


# Reads a plan from its text: the `GoalPlan`, or every mistake in it, each with its line, place and what to do.

ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
ORDERS_MAX = 1000


class Mistake(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, order=True):
    line: int
    place: str
    """The field, as in `order[2].claims`; empty for the whole file."""
    what: str
    hint: str = ""


def read(text: str, *, budget_required: bool = True) -> tuple[GoalPlan | None, list[Mistake]]:
    """The plan in `text`, or None, and all mistakes by line. A plan with mistakes is not to be run."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return None, [_syntax_error(str(error), text)]
    lines = lines_of(text)
    number = table.get("format", FORMAT)
    if isinstance(number, int) and number > FORMAT:
        what = f"format {number} is newer than this version reads"
        return None, [Mistake(line=line_of(lines, "format"), place="format", what=what, hint="upgrade treadle")]
    found = [*shape_faults(GoalPlan, table)]
    plan = None if found else msgspec.convert(table, GoalPlan)
    if plan is not None:
        found = [*_meaning(plan, budget_required)]
    else:
        wrong = {_field(place) for place, _, _ in found}
        nameless = any(re.fullmatch(r"order\[\d+\](\.id)?", place) for place in wrong)
        for place, what, hint in _meaning(_readable_part(table, wrong), budget_required):
            of_order = place.partition(".")[0]
            if _field(place) not in wrong and of_order not in wrong and not (nameless and _refers(place)):
                found.append((place, what, hint))
    mistakes = [Mistake(line=line_of(lines, place), place=place, what=what, hint=hint) for place, what, hint in found]
    return plan, sorted(mistakes)


def _field(place: str) -> str:
    """The field of the plan or of an order that a place lies in: `order[1].claims` for `order[1].claims[0]`."""
    found = re.match(r"order\[\d+\](\.\w+)?|budget(\.\w+)?|\w+", place)
    return found[0] if found else place


def _refers(place: str) -> bool:
    """Whether a mistake there may be about the name of another order, which is not known when that has none."""
    return place.endswith((".after", ".discovered_from"))


def _readable_part(table: dict[str, Any], wrong: set[str]) -> GoalPlan:
    """The plan with stand-ins for what is wrong, so that mistakes in the rest are found too."""
    left = {name: value for name, value in table.items() if name not in wrong}
    if "budget" in left:
        left["budget"] = {name: value for name, value in left["budget"].items() if f"budget.{name}" not in wrong}
    orders = []
    for number, each in enumerate(left.pop("order", ())):
        fields = each if isinstance(each, dict) else {}
        right = {name: value for name, value in fields.items() if f"order[{number}].{name}" not in wrong}
        orders.append({"id": f"order {number}", "task": "unknown", **right})
    return msgspec.convert({"goal": "unknown", **left, "order": orders}, GoalPlan)


_Found: TypeAlias = tuple[str, str, str]
"""A place, what is wrong there, and what to do."""


def _syntax_error(error: str, text: str) -> Mistake:
    at = re.search(r"\(at line (\d+), column \d+\)", error)
    line = int(at[1]) if at else text.count("\n") + 1
    return Mistake(line=line, place="", what=f"this is not TOML: {re.sub(r' ?[(]at .*[)]$', '', error)}")


def line_of(lines: Mapping[str, int], place: str) -> int:
    """The line of a place, or of the nearest thing around it that has one."""
    while place and place not in lines:
        place = place[: max(place.rfind("."), place.rfind("["), 0)]
    return lines.get(place, 1)


def shape_faults(kind: type[msgspec.Struct], table: Any, place: str = "") -> Iterator[_Found]:
    """Fields that are unknown, missing or of the wrong type, all of them: a decoder stops at the first."""
    if not isinstance(table, dict):
        yield place, f"this must be a table, not {_kind_of(table)}", ""
        return
    hints = get_type_hints(kind)
    for name in table.keys() - hints.keys():
        yield _join(place, name), f"there is no field {name!r}", _nearest(name, hints)
    for field in msgspec.structs.fields(kind):
        if field.name in table:
            yield from _value(hints[field.name], table[field.name], _join(place, field.name))
        elif field.required:
            yield _join(place, field.name), f"{field.name} is missing", f"every {'order' if place else 'plan'} has one"


def _value(hint: Any, value: Any, place: str) -> Iterator[_Found]:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        hint = next(arg for arg in args if arg is not type(None))
        origin, args = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield from shape_faults(hint, value, place)
    elif origin is tuple:
        if not isinstance(value, list):
            yield place, f"this must be a list, not {_kind_of(value)}", 'write it in brackets, as in ["a", "b"]'
            return
        for number, each in enumerate(value):
            yield from _value(args[0], each, f"{place}[{number}]")
    elif origin is Literal:
        if value not in args:
            yield place, f"{value!r} is none of {', '.join(map(str, args))}", ""
    elif hint is str or hint is int or hint is float or hint is bool:
        wanted = (int, float) if hint is float else (hint,)
        if not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool):
            yield place, f"this must be {_NAMES[hint]}, not {_kind_of(value)}", ""
    elif not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        yield place, "this must be a table of texts", 'as in roles = { worker = "native", reviewer = "codex" }'


_NAMES: dict[Any, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _kind_of(value: Any) -> str:
    kinds: dict[Any, str] = {dict: "a table", list: "a list", **_NAMES}
    return kinds.get(type(value), "a date or time")


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _meaning(plan: GoalPlan, budget_required: bool) -> Iterator[_Found]:
    """What each field says by itself and about the others."""
    if not plan.goal.strip():
        yield "goal", "the goal is empty", "say in a sentence what is wanted"
    if not plan.done.strip():
        yield "done", "done is missing: nothing proves that the goal is met", 'as in done = "make test"'
    if not plan.order:
        yield "order", "the plan has no orders", "write at least one [[order]]"
    if len(plan.order) > ORDERS_MAX:
        yield "order", f"{len(plan.order)} orders are more than {ORDERS_MAX}", "split the goal"
    if plan.budget is None and budget_required:
        yield "budget", "there is no budget", "as in budget = { usd = 20, hours = 3 }, or run it with --no-budget"
    for name, value in msgspec.structs.asdict(plan.budget).items() if plan.budget else ():
        if value is not None and not 0 < value < float("inf"):
            yield f"budget.{name}", f"{value} is no limit", "a limit is more than 0; leave it out for none"
    yield from (
        (f"roles.{role}", f"there is no role {role!r}", f"roles are {', '.join(ROLES)}")
        for role in plan.roles
        if role not in ROLES
    )
    yield from _gates(plan.gates, "gates")
    known: dict[str, int] = {}
    for number, order in enumerate(plan.order):
        yield from _order(order, f"order[{number}]")
        if order.id in known:
            yield f"order[{number}].id", f"the id {order.id!r} is used by order {known[order.id] + 1} already", ""
        known.setdefault(order.id, number)
    yield from _references(plan.order, known)


def faults(plan: GoalPlan) -> Iterator[str]:
    """What is wrong with a plan that was put together, in words."""
    return (f"{place}: {what}" for place, what, _ in _meaning(plan, budget_required=False))


def _gates(gates: Iterable[str], place: str) -> Iterator[_Found]:
    for number, gate in enumerate(gates):
        if gate not in get_args(Gate) and not re.fullmatch(r"agent:\w+", gate):
            yield (
                f"{place}[{number}]",
                f"there is no gate {gate!r}",
                "gates are plan, wave, order, land, none and agent:ROLE",
            )
        elif gate.startswith("agent:") and gate[6:] not in ROLES:
            yield f"{place}[{number}]", f"{gate[6:]!r} is no role", f"roles are {', '.join(ROLES)}"
    if "none" in gates and len(tuple(gates)) > 1:
        yield place, "none stands beside other gates", "none means that no one is asked"


def _order(order: PlannedOrder, place: str) -> Iterator[_Found]:
    if not ID.fullmatch(order.id):
        yield (
            f"{place}.id",
            f"{order.id!r} is no id",
            "an id has 1 to 40 of a-z, 0-9, - and _, and begins with a letter or digit",
        )
    if not order.task.strip():
        yield f"{place}.task", "the task is empty", "say what is to be done"
    if order.wave < 0:
        yield f"{place}.wave", f"there is no wave {order.wave}", "the first wave is 1"
    for name in ("claims", "symbols", "accept"):
        for number, each in enumerate(getattr(order, name)):
            if not each.strip():
                yield f"{place}.{name}[{number}]", "this is empty", ""
    if not order.land and order.accept:
        what = "an order that does not land changes nothing that accept could check"
        yield f"{place}.accept", what, "remove accept, or land = false"
    yield from _gates(order.gates, f"{place}.gates")


def _references(orders: tuple[PlannedOrder, ...], known: Mapping[str, int]) -> Iterator[_Found]:
    for number, order in enumerate(orders):
        named = [("after", other) for other in order.after] + [("discovered_from", order.discovered_from)]
        for field, other in named:
            if other == order.id:
                yield f"order[{number}].{field}", f"{order.id} names itself", ""
            elif other and other not in known:
                yield f"order[{number}].{field}", f"there is no order {other!r}", _nearest(other, known)
    circle = _circle({order.id: [each for each in order.after if each in known] for order in orders})
    if len(circle) > 2:
        what = f"these wait for each other: {' -> '.join(circle)}"
        yield f"order[{known[circle[0]]}].after", what, "one of them must go first"


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def _circle(after: Mapping[str, list[str]]) -> list[str]:
    """Some ids that wait for each other in a circle, the first named again at the end; empty when there are none."""
    left = dict(after)
    while free := [each for each, others in left.items() if not any(other in left for other in others)]:
        for each in free:
            del left[each]
    if not left:
        return []
    path = [next(iter(left))]
    while (following := next(other for other in left[path[-1]] if other in left)) not in path:
        path.append(following)
    return [*path[path.index(following) :], following]


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
