"""Terminals that the machine or a killed supervisor ended, and how to start each again with its agent's own resume.

Each terminal that runs in the background has a start record. Its supervisor removes it when the program ends by itself
or a person ends it. So a start record without a supervisor is a terminal that was lost: a power cut, a reboot, the OOM
killer.
"""

from __future__ import annotations

from treadle.errors import ConfigError, StorageError, Unsupported
from treadle.io.files import is_locked
from treadle.light import Any
from treadle.terminal.history import START, changed
from treadle.terminal.places import Place, ids
from treadle.terminal.settings import TerminalSettings

LAST, CHOOSE, FRESH = "last", "choose", "fresh"
"""How an agent is started again: with its last conversation in that directory, with its own list of conversations, or
with the same command as before."""


class LostTerminal:
    """A terminal that was lost. `seen` is when it last wrote something."""

    def __init__(self, place: Place, record: dict[str, Any]) -> None:
        self.place = place
        self.settings = TerminalSettings()
        vars(self.settings).update(record["settings"])
        self.settings.id, self.settings.directory = place.id, place.directory
        self.variables = [str(name) for name in record["env"]]
        self.seen = max(changed(place.start), changed(place.out))

    def prepared(self, how: str, env: dict[str, str]) -> tuple[TerminalSettings, str]:
        """The settings to start it with, and what the person should know. Raises when it cannot be done as asked."""
        if missing := [name for name in self.variables if name not in env]:
            names = " ".join(f"{name}=..." for name in missing)
            raise ConfigError(
                f"{self.place.id} was started with --env {' '.join(missing)}, whose values are not stored",
                hint=f"set them for the command: {names} treadle restore {self.place.id}",
            )
        self.settings.env = [(name, env[name]) for name in self.variables]
        self.settings.command, note = again(self.settings.command, how)
        return self.settings, note


def lost(directory: str) -> list[LostTerminal]:
    """Those of a directory, by id. A record that cannot be read is left alone."""
    found = []
    for place in (Place(directory, name) for name in ids(directory)):
        try:
            record = None if is_locked(place.pid) else START.load(place.start)
        except StorageError:
            continue
        if record:
            found.append(LostTerminal(place, record))
    return found


def ambiguous(all_lost: list[LostTerminal]) -> set[str]:
    """The ids of those whose agent's last conversation in their directory may be another's."""
    from treadle.terminal.detectors import by_command

    seen: dict[tuple[str, str], list[str]] = {}
    for each in all_lost:
        seen.setdefault((by_command(each.settings.command), each.settings.workdir), []).append(each.place.id)
    return {name for (agent, _), names in seen.items() if agent and len(names) > 1 for name in names}


def again(command: Any, how: str) -> tuple[list[str], str]:
    """The command that continues what this one began, and a note on what differs.

    A prompt on the command line is not given a second time. What cannot be told from an option's value is refused.
    """
    from treadle.terminal.detectors import named, position

    agent, at = position(command)
    resume = named(agent).resume if agent else {}
    if how == FRESH or not resume:
        return list(command), "the same command again" if not agent else f"{agent} without its conversation"
    rest = list(command[at + 1 :])
    if not {word.partition("=")[0] for word in rest} & set(resume["marks"]):
        rest, dropped = _without_prompt(rest)
        words = resume.get(how) or resume[CHOOSE]
        note = "its last conversation there" if words == resume.get(LAST) else "choose the conversation in it"
        note += f"; not sent again: {' '.join(dropped)}" if dropped else ""
        return [*command[: at + 1], *words, *rest], note
    if " " in rest[-1]:
        raise _unclear(rest[-1])
    return list(command), "as it was started"


def _without_prompt(words: list[str]) -> tuple[list[str], list[str]]:
    remaining: list[str] = []
    for number, word in enumerate(words):
        option = number > 0 and words[number - 1].startswith("-") and "=" not in words[number - 1]
        if word == "--" or not (word.startswith("-") or option):
            return remaining, words[number:]
        if option and number == len(words) - 1 and " " in word:
            raise _unclear(word)
        remaining.append(word)
    return remaining, []


def _unclear(word: str) -> Unsupported:
    return Unsupported(
        f"{word!r} on its command line may be a prompt, which would be sent again",
        hint="--fresh starts the same command again; or start it yourself with `treadle run`",
    )
