"""Tables of short texts by key: the symbols and the blackboard."""

from treadle.coordination.planning import Document, Planning, one_line
from treadle.errors import ConfigError, NotFound
from treadle.wire.common.schema import shown
from treadle.wire.heimdall.messages import VERSION


class Table:
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
            raise NotFound(f"no {self.what} {key!r}", hint=f"`{self.lister}` shows what there is")
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
        raise NotFound(f"no symbol stands for {value!r}", hint=f"`{self.lister}` shows what there is")
