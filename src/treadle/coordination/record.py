"""Where claims are kept.

In a repository, the record of live claims is one file in the state directory, which our own commands write under the
claims' lock and no sandbox shows. The files in git's directory are a view of it, for people and for the original
tools. A file there that we did not write is a claim of an unproved identity: it adds what it covers, and lasts as
long as it is there. Whatever else is done to the view removes nothing: it is put back, and that is reported. Where a
person sets `HEIMDALL_PLANNING_DIR`, and outside of a repository, the files themselves are the authority.
"""

from __future__ import annotations

import os

from treadle.coordination.planning import Planning, read_text, write_text
from treadle.errors import TreadleError
from treadle.io.files import state_number, state_numbers, storage_error, try_remove
from treadle.io.paths import private_dir
from treadle.io.records import FileRecord
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.common.records import Damaged, plain_object
from treadle.wire.common.schema import NON_EMPTY, TEXT, faults, list_of, record

CLAIM = record({"haid": NON_EMPTY, "claimed_surfaces": list_of(TEXT)})
"""The fields without which a file is not a claim; the others have defaults."""
ENDING = ".json"
FORMAT = 1


def encoded(found: dict[str, Any]) -> bytes:
    return dumps(found).encode(errors="surrogateescape")  # a path need not be text


RECORD = FileRecord(dict[str, Any], format=FORMAT, sync=False, decode=plain_object, encode=encoded)
SEEN = FileRecord(dict[str, Any], format=1, sync=False, decode=plain_object, encode=encoded)
"""The remote through which clones share claims, when it was read last, and what other clones claimed then."""
_RECORDED = "recorded"
"""A file beside the view: there is a record of this repository."""


class SeenClones:
    """What was last read of the claims of other clones (`clones`). Light: every look at claims asks."""

    def __init__(self, planning: Planning) -> None:
        self.path = planning.private_path("clones.json")
        self._planning = planning

    @property
    def remote(self) -> str:
        """Through which remote claims are shared; empty where they are not."""
        return str(self.read().get("remote", ""))

    def claims(self) -> dict[str, dict[str, Any]]:
        """By the name of the clone and the claim's in it: two clones may have the same identity."""
        found: dict[str, dict[str, Any]] = self.read().get("clones", {})
        return {
            f"{clone}/{name}": {**fields, "elsewhere": True}
            for clone, theirs in found.items()
            for name, fields in theirs.items()
        }

    def unread(self) -> list[str]:
        """Clones that told something which is not a list of claims, so that what they hold now is unknown."""
        return [f"what clone {name} told of its claims cannot be read" for name in self.read().get("unread", ())]

    def age(self) -> str:
        """How old that is, for people; empty where nothing is shared."""
        seen = self.read()
        ago = f"{max(0, int(self._planning.clock() - seen['at']))} s ago" if seen.get("at") else "never"
        return f"claims of other clones were last read from {seen['remote']}: {ago}" if seen else ""

    def read(self) -> dict[str, Any]:
        """The whole of it; empty where nothing is shared."""
        try:
            return SEEN.load_whole(self.path) or {}
        except (Damaged, TreadleError):
            return {}


class ClaimStore:
    """The claims of one repository, each by the name of its file in the view."""

    def __init__(self, planning: Planning) -> None:
        self.directory = planning.claims
        self._planning = planning
        self._path = planning.record_path()
        self._known: tuple[int, dict[str, Any]] = (0, {})
        self.clones = SeenClones(planning)

    # Reading...

    def names(self) -> list[str]:
        return sorted({*self._own(), *state_numbers(self.directory, ENDING), *self.clones.claims()})

    def read(self, name: str) -> dict[str, Any] | None:
        """The fields of a claim; None when there is none of this name. Raises ValueError when that is not a claim."""
        if (own := self._own().get(name)) is not None:
            return dict(own["fields"])
        if "/" in name:
            return self.clones.claims().get(name)
        text = _text(os.path.join(self.directory, name))
        if text is None:
            return None
        fields = loads(text)
        if not isinstance(fields, dict):
            raise ValueError("not an object")
        fields.pop("elsewhere", None)
        return {**fields, "unproved": True} if self._path and self._recorded() else fields

    def own(self) -> dict[str, dict[str, Any]]:
        """The fields of the claims that were made in this clone."""
        return {name: dict(one["fields"]) for name, one in self._own().items()}

    def fence(self) -> int:
        return int(self._record().get("fence", 0))

    def maker(self, haid: str) -> str | None:
        """The session in which its claim was made, "" for a person's or another tool's; None when it has none."""
        name = claim_name(haid)
        if (own := self._own().get(name)) is not None:
            return str(own.get("by", ""))
        return "" if os.path.exists(os.path.join(self.directory, name)) else None

    def place(self, haid: str) -> str:
        """The worktree in which its claim was made; empty where that is not known."""
        return str(self._own().get(claim_name(haid), {}).get("where", ""))

    def _own(self) -> dict[str, dict[str, Any]]:
        own: dict[str, dict[str, Any]] = self._record().get("claims", {})
        return own

    def _record(self) -> dict[str, Any]:
        if not self._path:
            return {}
        try:
            number = state_number(self._path)
        except OSError:
            return {}
        if number != self._known[0]:
            self._known = number, self._parsed()
        return self._known[1]

    def _parsed(self) -> dict[str, Any]:
        try:
            found = RECORD.get(self._path)
            good = all(
                isinstance(one["seen"], int) and not faults(CLAIM, one["fields"]) for one in found["claims"].values()
            )
            return found if good and found["repository"] == self.directory else {}
        except (Damaged, KeyError, TypeError, AttributeError):
            return {}  # it is made again from the view

    def _recorded(self) -> bool:
        return os.path.exists(self._planning.live_path(_RECORDED))

    # Writing, under the lock...

    def write(self, name: str, fields: dict[str, Any], fence: int, by: str | None = None, where: str = "") -> None:
        fields.pop("unproved", None)
        own = dict(self._own())
        write_text(os.path.join(self.directory, name), dumps(fields, 2) + "\n")
        before = own.get(name, {})
        made = {"by": before.get("by", "") if by is None else by, "where": where or before.get("where", "")}
        own[name] = {"fields": fields, "seen": self._seen(name), **made}
        self._save(own, fence)

    def remove(self, name: str) -> None:
        path = os.path.join(self.directory, name)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise storage_error(error, path, "remove") from error
        if name in self._own():
            self._save({other: one for other, one in self._own().items() if other != name}, 0)

    def is_changed(self) -> bool:
        """Whether another program has changed the view of what we recorded, or removed the record."""
        if not self._path:
            return False
        numbers = state_numbers(self.directory, ENDING)
        lost = not self._record() and bool(numbers) and self._recorded()
        return lost or any(numbers.get(name) != one["seen"] for name, one in self._own().items())

    def restore(self) -> list[str]:
        """Put the view back, or make a lost record again from it. Returns what was done, for people."""
        done, own = [], dict(self._own())
        if not self._record() and self._recorded():
            done.append(
                "the record of claims was gone or damaged, and was made again from the files in git's directory"
            )
            own = {name: {"fields": one, "seen": 0, "by": ""} for name in self.names() if (one := self._in_view(name))}
        for name, one in own.items():
            seen = self._seen(name)
            if seen == one["seen"]:
                continue
            theirs = self._in_view(name) if seen else None
            if theirs != one["fields"]:
                # What another program added stays; what it took away comes back.
                texts = [*one["fields"]["claimed_surfaces"], *(theirs or {}).get("claimed_surfaces", ())]
                fields = {**one["fields"], "claimed_surfaces": list(dict.fromkeys(texts))}
                path = os.path.join(self.directory, name)
                if not os.path.isfile(path):
                    try_remove(path)  # a pipe in its place would be waited for
                write_text(path, dumps(fields, 2) + "\n")
                done.append(
                    f"the claim of `{fields['haid']}` was {'changed' if theirs else 'removed'}, and was put back"
                )
                one = {**one, "fields": fields}
            own[name] = {**one, "seen": self._seen(name)}
        self._save(own, 0)
        return done

    def _in_view(self, name: str) -> dict[str, Any] | None:
        try:
            fields = loads(_text(os.path.join(self.directory, name)) or "")
            return None if faults(CLAIM, fields) else dict(fields)
        except (ValueError, TreadleError):
            return None

    def _seen(self, name: str) -> int:
        try:
            return state_number(os.path.join(self.directory, name))
        except OSError:
            return 0

    def _save(self, own: dict[str, dict[str, Any]], fence: int) -> None:
        if not self._path:
            return
        private_dir(os.path.dirname(self._path))
        found = {"format": FORMAT, "repository": self.directory, "fence": max(fence, self.fence()), "claims": own}
        RECORD.save(self._path, found)
        if not self._recorded():
            write_text(self._planning.live_path(_RECORDED), "1\n")


def _text(path: str) -> str | None:
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("not a file")  # a pipe would be waited for
    return read_text(path)


def file_name(haid: str) -> str:
    return haid.replace("/", "_").replace(":", "_")


def claim_name(haid: str) -> str:
    return file_name(haid) + ENDING
