"""Variables that an outside agent's own settings name and that it does not get: so that a person is told which.

An agent sees an allow-list of our environment. A key under a name that a person made up is not on it, and is not passed
on because the agent's files name it: the agent can write these files, and could name any other secret there.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence

from treadle.drivers.card import Card
from treadle.drivers.confined import known, placed
from treadle.errors import TreadleError
from treadle.io.reading import read_if_there

_NAME = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]{2,}\b")


class Withheld:
    def __init__(self, card: Card, argv: Sequence[str], environ: Mapping[str, str], given: Mapping[str, str]) -> None:
        self._agent = card.name
        self._names = {name for name, value in environ.items() if value and name not in given}
        behind = known(argv)  # an adapter's command may be typed in full
        files = card.settings or (behind.settings if behind is not None else ())
        self._settings = _named_in(files, given, self._names)

    def warning(self) -> str:
        """What to tell a person when a session begins; empty when its settings name nothing that is withheld."""
        names = self._settings
        return f"the settings of {self._agent} name {', '.join(names)}: {self._advice(names)}" if names else ""

    def hint(self, message: str, *, signing_in: bool) -> str:
        """What to do about an error with this message: it names a variable, or is about a key."""
        named = [name for name in dict.fromkeys(_NAME.findall(message)) if name in self._names]
        named = named or (self._settings if signing_in else [])
        return f"{', '.join(named)}: {self._advice(named)}" if named else ""

    def advise(self, error: TreadleError, *, signing_in: bool) -> None:
        """Put it in front of what the error advises."""
        if advice := self.hint(error.message, signing_in=signing_in):
            error.hint = advice if error.hint is None else f"{advice}; {error.hint}"

    def _advice(self, names: Sequence[str]) -> str:
        words = ", ".join(f'"{name}"' for name in names)
        return f"set here but not passed to it; agents.{self._agent}.env = [{words}] in the settings does"


def _named_in(files: Sequence[str], env: Mapping[str, str], names: Collection[str]) -> list[str]:
    """Those of the names that stand in one of the agent's settings files, whatever their form."""
    found: dict[str, None] = {}
    for place in placed(files, env):
        text = (read_if_there(place) or b"").decode("utf-8", "replace") if os.path.isfile(place) else ""
        found.update(dict.fromkeys(name for name in _NAME.findall(text) if name in names))
    return [*found]
