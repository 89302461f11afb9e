"""The token ledger: what every message and spawned agent cost, by role.

Each number is kept with its source: `measured` (a provider reported it), `estimated` (by us, from the text), `counted`
(by the caller's tokenizer) or `declared` (the caller said so).
"""

import os
from collections.abc import Iterator

from treadle.coordination.planning import Document, Planning, make_dirs, one_line
from treadle.errors import ConfigError, NotFound
from treadle.io.files import append_line, opened, storage_error
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.common.schema import shown
from treadle.wire.heimdall.messages import VERSION

SOURCES = ("measured", "estimated", "counted", "declared")
_BLOCK = 4 << 20
_SMALL = 1 << 20
"""Above this size, a compiled decoder is worth its import."""


class LedgerTotals:
    """Tokens and messages by role, tokens by source, and the number of unreadable lines."""

    def __init__(self) -> None:
        self.roles: dict[str, list[int]] = {}
        self.sources: dict[str, int] = {}
        self.unreadable = 0

    def add(self, role: str, tokens: int, source: str) -> None:
        row = self.roles.get(role)
        if row is None:
            self.roles[role] = [tokens, 1]
        else:
            row[0] += tokens
            row[1] += 1
        self.sources[source] = self.sources.get(source, 0) + tokens

    def tokens(self, role: str) -> int:
        return self.roles.get(role, [0, 0])[0]

    @property
    def total(self) -> int:
        return sum(tokens for tokens, _ in self.roles.values())


class Ledger:
    def __init__(self, planning: Planning) -> None:
        self.planning = planning
        self.path = planning.live_path("protocol", "ledger.jsonl")
        self.baselines = Document(planning, "protocol/baselines.json", "baselines", VERSION)

    def log(
        self, role: str, kind: str, tokens: str | int, *, msg_id: str = "", source: str = "declared", run: str = ""
    ) -> None:
        """Add one line. All ledger lines are written here."""
        number = whole(tokens)
        if not role or not kind:
            raise ConfigError("a ledger line needs a role and a kind", hint="give --role and --kind")
        if source not in SOURCES:
            raise ConfigError(f"{source!r} is not a source of numbers", hint=f"one of {', '.join(SOURCES)}")
        entry: dict[str, Any] = {"ts": self.planning.now(), "role": role, "kind": kind, "tokens": number}
        more = {"msg_id": msg_id, "source": source, "run": run or os.environ.get("HEIMDALL_RUN", "")}
        entry |= {name: value for name, value in more.items() if value}
        make_dirs(os.path.dirname(self.path))
        append_line(self.path, dumps(entry).encode(), mode=0o644)
        self.planning.log("ledger", "log", f"{role}/{kind}={tokens}")

    def baseline(self, role: str, tokens: str | int) -> None:
        """Save the number of tokens to compare with."""
        number = whole(tokens)
        if not role:
            raise ConfigError("a baseline needs a role", hint="give --role")
        self.baselines.change(lambda known: known.update({role: number}))
        self.planning.log("ledger", "baseline", f"{role}={tokens}")

    def report(self, run: str = "") -> LedgerTotals:
        totals = self.totals(run)
        self.planning.note("ledger", "report", f"total={totals.total}")
        return totals

    def delta(self, role: str = "", run: str = "") -> list[dict[str, Any]]:
        """For the role, or every role with a baseline: the baseline, the current total, and the change in percent."""
        known = self.baselines.read()
        totals = self.totals(run)
        rows = []
        for name in [role] if role else sorted(known):
            measured, base = totals.tokens(name), known.get(name)
            if type(base) is not int or base <= 0:
                base = None
            percent = None if base is None else change_percent(base, measured)
            rows.append({"role": name, "baseline": base, "measured": measured, "percent": percent})
        self.planning.note("ledger", "delta", role or "all")
        return rows

    def totals(self, run: str = "") -> LedgerTotals:
        totals = LedgerTotals()
        try:
            with opened(self.path) as file:
                for lines in _blocks(file):
                    _add(lines, totals, run)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise storage_error(error, self.path, "read") from error
        return totals


def whole(tokens: str | int) -> int:
    text = str(tokens)
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise ConfigError(f"{text!r} is not a number of tokens", hint="digits only")
    return int(text)


def change_percent(base: int, measured: int) -> int:
    """Rounded half away from zero, as a person would; a saving is negative."""
    twice = 200 * abs(measured - base)
    percent = (twice + base) // (2 * base)
    return percent if measured > base else -percent


def delta_text(row: dict[str, Any]) -> str:
    if row["baseline"] is None:
        return f"{row['role']}: baseline n/a -> {row['measured']} tokens (no v1 baseline recorded)"
    return (
        f"{row['role']}: {row['baseline']} -> {row['measured']} tokens"
        f" (v1 baseline -> measured; {signed(row['percent'])}%)"
    )


def signed(percent: int) -> str:
    """-73, +707; no change is -0, as in the original tool."""
    return f"+{percent}" if percent > 0 else f"-{-percent}"


def _add(lines: bytes, totals: LedgerTotals, run: str) -> None:
    if len(lines) > _SMALL and _add_fast(lines, totals, run):
        return
    for line in lines.split(b"\n"):
        if line.strip():
            _add_line(line, totals, run)


def _add_line(line: bytes, totals: LedgerTotals, run: str) -> None:
    try:
        entry = loads(line)
        role, tokens = entry["role"], entry["tokens"]
    except (ValueError, KeyError, TypeError):
        totals.unreadable += 1
        return
    if not isinstance(role, str) or not isinstance(tokens, int) or isinstance(tokens, bool):
        totals.unreadable += 1
    elif not run or entry.get("run") == run:
        source = entry.get("source")
        totals.add(role, tokens, source if isinstance(source, str) else "declared")


def _add_fast(lines: bytes, totals: LedgerTotals, run: str) -> bool:
    """False where one of the lines cannot be read, or has a field of an unusual type; then nothing is added."""
    import msgspec

    class Line(msgspec.Struct, gc=False):
        role: str
        tokens: int
        source: str = "declared"
        run: str = ""

    try:
        entries = msgspec.json.Decoder(Line).decode_lines(lines)
    except (msgspec.DecodeError, ValueError):
        return False
    for entry in entries:
        if not run or entry.run == run:
            totals.add(entry.role, entry.tokens, entry.source)
    return True


def _blocks(file: Any) -> Iterator[bytes]:
    """The file in parts of whole lines."""
    rest = b""
    while block := file.read(_BLOCK):
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest += block
            continue
        yield rest + block[:cut]
        rest = block[cut:]
    if rest:
        yield rest


class Table:
    """Short texts by key: the symbols, or the blackboard."""

    actor: str
    """The actor's name in the audit trail."""
    file: str
    field: str
    what: str

    def __init__(self, planning: Planning) -> None:
        self.planning = planning
        self.document = Document(planning, self.file, self.field, VERSION)

    def set(self, key: str, value: str) -> None:
        if not key or one_line(key) != key:
            raise ConfigError(f"{key!r} cannot be a {self.what}", hint="use printable text that is not empty")
        self.document.change(lambda entries: entries.update({key: value}))
        self.planning.log(self.actor, "set", f"{key}={value}")

    def get(self, key: str) -> str:
        found = self.find(key)
        self.planning.note(self.actor, self.got if found is not None else "miss", key)
        if found is None:
            raise NotFound(f"no {self.what} {key!r}", hint=f"`{self.lister}` lists them")
        return found

    got = "get"
    lister: str

    def find(self, key: str) -> str | None:
        """The value, without a line in the log: for callers that log what they do with it."""
        entries = self.document.read()
        return _text(entries[key]) if key in entries else None

    def all(self) -> dict[str, str]:
        """All entries, in the order of the file."""
        entries = self.known()
        self.planning.note(self.actor, "list", f"{len(entries)}")
        return entries

    def known(self) -> dict[str, str]:
        """The same without a line in the log."""
        return {key: _text(value) for key, value in self.document.read().items()}


def _text(value: object) -> str:
    return shown(value, 1 << 30)


class Blackboard(Table):
    """Facts that one agent found out and all others can read by key."""

    actor = "blackboard"
    file = "blackboard.json"
    field = "facts"
    what = "fact"
    lister = "heimdall-blackboard list"

    def delete(self, key: str) -> None:
        """Remove a fact, if it exists."""
        self.document.change(lambda entries: entries.pop(key, None))
        self.planning.log(self.actor, "del", key)


class Symbols(Table):
    """Short ids for artifacts that would otherwise be spelt out again and again."""

    actor = "resolve"
    file = "protocol/symbols.json"
    field = "symbols"
    what = "symbol"
    got = "lookup"
    lister = "heimdall-resolve list"

    def assigned(self, wanted: dict[str, str]) -> dict[str, str]:
        """The id of each of these values, given with a letter: one that has none yet gets the next, such as `F12`."""
        found = self._assign(dict(self.document.read()), wanted)
        if any(self.find(key) != value for value, key in found.items()):
            self.document.change(lambda entries: found.update(self._assign(entries, wanted)))
            self.planning.log(self.actor, "assign", " ".join(found.values()))
        return found

    def _assign(self, entries: dict[str, object], wanted: dict[str, str]) -> dict[str, str]:
        found = {}
        for value, letter in wanted.items():
            own = [key for key in entries if key[:1] == letter and key[1:].isdecimal()]
            named = next((key for key in own if entries[key] == value), "")
            found[value] = named or f"{letter}{max([0, *(int(key[1:]) for key in own)]) + 1}"
            entries[found[value]] = value
        return found

    def reverse(self, value: str) -> str:
        """The first id, in the order of the file, whose value is exactly this."""
        for key, known in self.document.read().items():
            if known == value:
                self.planning.note(self.actor, "reverse", f"{value}->{key}")
                return str(key)
        self.planning.note(self.actor, "miss", f"{value}->")
        raise NotFound(f"no symbol has the value {value!r}", hint=f"`{self.lister}` lists them")
