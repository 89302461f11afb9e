"""A table of short texts by key: the common form of symbols and blackboard facts."""

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
