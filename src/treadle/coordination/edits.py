"""Adds our entries to files that belong to others, shows the change beforehand, and can remove it without a trace.

The original content of a file is remembered. If no one has changed the file since, it is restored byte for byte;
otherwise only our entry is removed from it.
"""

import os
from collections.abc import Sequence
from hashlib import sha256

from treadle.coordination.planning import make_dirs, read_text, write_text
from treadle.errors import ConfigError
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads


class FileEdit:
    def __init__(self, path: str) -> None:
        self.path = path

    def put(self, text: str | None) -> str:
        """The content of the file with our entry; `text` is None when there is no file."""
        raise NotImplementedError

    def cut(self, text: str) -> str | None:
        """The content of the file without our entry; None when nothing is left."""
        raise NotImplementedError


class OwnFile(FileEdit):
    """A file that is entirely ours."""

    def __init__(self, path: str, content: str) -> None:
        super().__init__(path)
        self.content = content

    def put(self, text: str | None) -> str:
        return self.content

    def cut(self, text: str) -> str | None:
        return None


class Block(FileEdit):
    """Lines of text between two marker lines that say whose they are."""

    def __init__(self, path: str, begin: str, end: str, body: str) -> None:
        super().__init__(path)
        self.begin, self.end = begin, end
        self.body = body

    def put(self, text: str | None) -> str:
        block = f"{self.begin}\n{self.body}{self.end}\n"
        rest = (self.cut(text) or "").rstrip() if text else ""
        return f"{rest}\n\n{block}" if rest else block

    def cut(self, text: str) -> str | None:
        head, found, tail = text.partition(f"{self.begin}\n")
        tail = tail.partition(f"{self.end}\n")[2]
        if not found:
            return text
        rest = f"{head.rstrip()}\n" if not tail.strip() else f"{head}{tail.lstrip()}"
        return rest if rest.strip() else None


class JsonEntry(FileEdit):
    """A value in a JSON object; with `mark`, an item of a list there, recognised by a text in it."""

    def __init__(self, path: str, keys: Sequence[str], value: Any, mark: str = "") -> None:
        super().__init__(path)
        self.keys = list(keys)
        self.value = value
        self.mark = mark

    def put(self, text: str | None) -> str:
        document = self._read(text)
        place = document
        for key in self.keys[:-1]:
            place = self._inside(place, key, {})
        if self.mark:
            items = [item for item in self._inside(place, self.keys[-1], []) if self.mark not in dumps(item)]
            place[self.keys[-1]] = [*items, self.value]
        else:
            place[self.keys[-1]] = self.value
        return dumps(document, 2) + "\n"

    def cut(self, text: str) -> str | None:
        document = self._read(text)
        self._cut(document, self.keys)
        return dumps(document, 2) + "\n" if document else None

    def _cut(self, place: Any, keys: list[str]) -> None:
        """Remove the entry, and on the way back whatever is empty without it."""
        if not isinstance(place, dict) or keys[0] not in place:
            return
        if len(keys) > 1:
            self._cut(place[keys[0]], keys[1:])
        elif self.mark and isinstance(place[keys[0]], list):
            place[keys[0]] = [item for item in place[keys[0]] if self.mark not in dumps(item)]
        else:
            place[keys[0]] = None
        if not place[keys[0]]:
            del place[keys[0]]

    def _read(self, text: str | None) -> dict[str, Any]:
        try:
            document = loads(text) if text and text.strip() else {}
        except ValueError as error:
            raise ConfigError(
                f"{self.path} cannot be changed: it is not plain JSON ({error})",
                hint=f"put this in by hand, at {'.'.join(self.keys)}: {dumps(self.value)}",
            ) from None
        if not isinstance(document, dict):
            raise ConfigError(f"{self.path} is not a JSON object", hint="fix it by hand first")
        return document

    def _inside(self, place: dict[str, Any], key: str, empty: Any) -> Any:
        found = place.setdefault(key, empty)
        if not isinstance(found, type(empty)):
            raise ConfigError(f"{key!r} in {self.path} is not what it should be", hint="fix it by hand first")
        return found


def planned(edits: Sequence[FileEdit]) -> dict[str, tuple[str | None, str]]:
    """The old and the new content of each file. Nothing is written."""
    found: dict[str, tuple[str | None, str]] = {}
    for edit in edits:
        before, now = found.get(edit.path) or (read_text(edit.path),) * 2
        found[edit.path] = (before, edit.put(now))
    return found


class Manifest:
    """What was written for one program, so that it can be undone. One file for each program, in one directory."""

    def __init__(self, directory: str, name: str) -> None:
        self.directory = directory
        self.path = os.path.join(directory, f"{name}.json")
        self.files: dict[str, dict[str, Any]] = {}
        text = read_text(self.path)
        if text is not None:
            self.files = loads(text)["files"]

    def apply(self, plan: dict[str, tuple[str | None, str]]) -> None:
        make_dirs(self.directory)
        for path, (before, after) in plan.items():
            known = self.files.get(path)
            unchanged = known is not None and before is not None and known["sha256"] == _sum(before)
            first = known["before"] if known is not None and unchanged else before
            made = known["made"] if known is not None else _missing(os.path.dirname(path))
            self.files[path] = {"before": first, "sha256": _sum(after), "made": made}
        self._save()  # before anything is changed, so that it can always be undone
        for path, (before, after) in plan.items():
            if before != after:
                write_text(path, after)

    def remove(self, edits: Sequence[FileEdit]) -> list[str]:
        """Undo all of it and return the files. What another program also needs is left to that one."""
        changed = []
        for path, known in self.files.items():
            now = read_text(path)
            if now is None or self._hand_over(path, known, now):
                continue
            rest: str | None = known["before"]
            if _sum(now) != known["sha256"]:
                rest = now
                for edit in edits:
                    rest = edit.cut(rest) if rest is not None and edit.path == path else rest
            _restore(path, rest, known["made"])
            changed.append(path)
        if os.path.exists(self.path):
            os.unlink(self.path)
        return changed

    def _hand_over(self, path: str, known: dict[str, Any], now: str) -> bool:
        """Whether another program needs this file as it is. If so, its manifest takes over the original content."""
        needed = False
        for name in os.listdir(self.directory):
            other = Manifest(self.directory, name.removesuffix(".json"))
            if other.path == self.path or path not in other.files:
                continue
            needed = True
            if other.files[path]["before"] == now and known["sha256"] == _sum(now):
                other.files[path] |= {"before": known["before"], "made": known["made"]}
                other._save()
        return needed

    def _save(self) -> None:
        write_text(self.path, dumps({"version": 1, "files": self.files}, 2) + "\n")


def _missing(directory: str) -> list[str]:
    """The missing directories on the way, innermost first."""
    found = []
    while not os.path.isdir(directory):
        found.append(directory)
        directory = os.path.dirname(directory)
    return found


def _restore(path: str, text: str | None, made: list[str]) -> None:
    if text is not None:
        write_text(path, text)
        return
    os.unlink(path)
    for directory in made:
        try:
            os.rmdir(directory)
        except OSError:
            return  # something else is in it by now


def _sum(text: str) -> str:
    return sha256(text.encode(errors="surrogateescape")).hexdigest()
