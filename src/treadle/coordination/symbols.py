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
