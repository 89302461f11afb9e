"""The symbol table: short ids for artifacts that would otherwise be spelt out again and again."""

from treadle.coordination.table import Table
from treadle.errors import NotFound


class Symbols(Table):
    actor = "resolve"
    file = "protocol/symbols.json"
    field = "symbols"
    what = "symbol"
    got = "lookup"
    lister = "heimdall-resolve list"

    def reverse(self, value: str) -> str:
        """The first id, in the order of the file, whose value is exactly this."""
        for key, known in self.document.read().items():
            if known == value:
                self.planning.note(self.actor, "reverse", f"{value}->{key}")
                return str(key)
        self.planning.note(self.actor, "miss", f"{value}->")
        raise NotFound(f"no symbol stands for {value!r}", hint=f"`{self.lister}` shows what there is")
