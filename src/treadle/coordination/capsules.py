"""Context capsules: what was done, in at most ten lines, for tasks that build on it; and decisions.md with the records
of conflicts.
"""

import os
from collections.abc import Sequence

from treadle.coordination.planning import Planning, is_newer, make_dirs, one_line, read_newer, write_both, write_text
from treadle.errors import ConfigError, NotFound
from treadle.io.files import append_lines, storage_error

MAX_LINES = 10
"""Seed 003: a capsule that would exceed 10 lines is rejected, which forces real compaction."""
_ID_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_id(name: str, what: str = "capsule id") -> str:
    if not name or len(name) > 128 or name.startswith(".") or not _ID_CHARS.issuperset(name):
        raise ConfigError(
            f"{name!r} cannot be a {what}",
            hint="use letters, digits, `.`, `_` and `-`, not starting with a dot, at most 128",
        )
    return name


def split_ids(text: str) -> list[str]:
    """The ids in `a,b`, each once; spaces and stray commas are ignored."""
    return list(dict.fromkeys(text.replace(",", " ").split()))


class Capsules:
    def __init__(self, planning: Planning) -> None:
        self.planning = planning
        self.directory = planning.path("protocol", "capsules")
        self.copies = planning.copy_path("protocol", "capsules")

    def write(
        self, name: str, what: str, where: str = "", decision: str = "", gotcha: str = "", depends: str = ""
    ) -> int:
        """Save a capsule and return its number of lines. One that is too long is refused before anything is written."""
        check_id(name)
        needs = [check_id(need, "dependency") for need in split_ids(depends)]
        if not what.strip():
            raise ConfigError("a capsule must describe what was done", hint='give --what "..."')
        parts = (("WHAT", what), ("WHERE", where), ("DECISION", decision), ("GOTCHA", gotcha))
        body = "".join(f"{label}: {value}\n" for label, value in parts if value)
        text = f"---\nid: {name}\ndepends: {','.join(needs)}\nts: {self.planning.now()}\n---\n{body}"
        lines = text.count("\n")
        if lines > MAX_LINES:
            self.planning.log("capsule", "refuse", f"{name} lines={lines}")
            raise ConfigError(
                f"capsule {name} would have {lines} lines; the limit is {MAX_LINES}", hint="use fewer lines"
            )
        with self.planning.lock("protocol-capsules"):
            write_both(self.path(name), self._copy(name), text)
            self._settle()
        self.planning.log("capsule", "write", f"{name} depends={','.join(needs)} lines={lines}")
        return lines

    def show(self, name: str) -> str:
        text = self._text(name)
        self.planning.note("capsule", "show" if text is not None else "miss", name)
        if text is None:
            raise self._missing({name: None})
        return text

    def remove(self, name: str) -> None:
        """Remove a capsule and its copy: a file that is merely deleted comes back."""
        check_id(name)
        with self.planning.lock("protocol-capsules"):
            removed = [_unlink(path) for path in (self._copy(name), self.path(name)) if path]
        if not any(removed):
            raise self._missing({name: None})
        self.planning.log("capsule", "remove", name)

    def ids(self) -> list[str]:
        names = self._names()
        self.planning.note("capsule", "list", str(len(names)))
        return names

    def _names(self) -> list[str]:
        return sorted(_ids_in(self.directory) | (_ids_in(self.copies) if self.copies else set()))

    def _settle(self) -> None:
        """Put back every capsule that git removed, and copy those that came from git or another tool."""
        for name in self._names() if self.copies else []:
            path, copy = self.path(name), self._copy(name)
            if is_newer(copy, path) or not os.path.exists(copy):
                write_both(path, copy, self.listed(name))

    def deps(self, name: str) -> list[str]:
        """The ids of the closure, prerequisites first, the capsule itself last."""
        found = list(self.closure([name]))
        self.planning.note("capsule", "deps", name)
        return found

    def hydrate(self, names: list[str]) -> str:
        """The texts of all capsules in the closure, separated by blank lines."""
        texts = self.closure(names)
        self.planning.note("capsule", "hydrate", " ".join(names))
        return "\n".join(texts.values())

    def closure(self, names: list[str]) -> dict[str, str]:
        """These capsules and all that they build on, by id, prerequisites first.

        Depth first, in the order in which dependencies are written. In a circle, the capsule that was reached first
        comes last. Raises NotFound, naming every missing capsule, before anything is returned.
        """
        texts: dict[str, str] = {}
        needs: dict[str, list[str]] = {}
        missing: dict[str, str | None] = {}
        todo: list[tuple[str, str | None]] = [(name, None) for name in names]
        while todo:
            name, wanted_by = todo.pop()
            if name in texts or name in missing:
                continue
            text = self._text(name)
            if text is None:
                missing[name] = wanted_by
                continue
            texts[name] = text
            needs[name] = depends_of(text)
            todo += [(need, name) for need in needs[name]]
        if missing:
            self.planning.note("capsule", "miss", " ".join(missing))
            raise self._missing(missing)
        return {name: texts[name] for name in _in_order(names, needs)}

    def path(self, name: str) -> str:
        return os.path.join(self.directory, f"{name}.md")

    def listed(self, name: str) -> str:
        """The text of one of `ids()`, which another tool may have named as we would not."""
        return read_newer(self.path(name), self._copy(name)) or ""

    def _text(self, name: str) -> str | None:
        return read_newer(self.path(check_id(name)), self._copy(name))

    def _copy(self, name: str) -> str:
        return os.path.join(self.copies, f"{name}.md") if self.copies else ""

    def _missing(self, missing: dict[str, str | None]) -> NotFound:
        named = ", ".join(f"{name} (needed by {by})" if by else name for name, by in sorted(missing.items()))
        return NotFound(f"no such capsule: {named}", hint="`heimdall-capsule list` lists them")


def _ids_in(directory: str) -> set[str]:
    try:
        return {name.removesuffix(".md") for name in os.listdir(directory) if name.endswith(".md")}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise storage_error(error, path, "remove") from error
    return True


def depends_of(text: str) -> list[str]:
    """The ids in the `depends:` line of a capsule's header."""
    lines = iter(text.splitlines())
    if next(lines, "") == "---":
        for line in lines:
            if line == "---":
                break
            if line.startswith("depends:"):
                return split_ids(line.removeprefix("depends:"))
    return []


def _in_order(names: list[str], needs: dict[str, list[str]]) -> list[str]:
    done: dict[str, None] = {}
    entered: set[str] = set()
    for name in names:
        path = [name]
        while path:
            current = path[-1]
            entered.add(current)
            ahead = next((need for need in needs[current] if need not in entered), None)
            if ahead is not None:
                path.append(ahead)
            else:
                done.setdefault(current)
                path.pop()
    return list(done)


def compact(name: str, text: str) -> str:
    """A capsule as a brief shows it: its name, what it builds on, and its text, without the file's header."""
    needs = depends_of(text)
    head, mark, body = text.partition("\n---\n")
    after = f" (after {', '.join(needs)})" if needs else ""
    return f"[{name}]{after} {body if mark else head}".rstrip()


# decisions.md, the append-only record of why things are as they are, and the records of conflicts.

UNSPECIFIED = "(unspecified)"

RECORD = """# Conflict {name} — {title}

- Date: {date}
- Overriding HAID: `{haid}`
- Displaced HAID: `{displaced}`
- Surfaces:
{surfaces}

## Both intents

**Overriding:** {overriding_intent}

**Displaced:** {displaced_intent}

## Resolution

(unspecified)

## Recovery path

The displaced work is kept on the branch `{branch}`.
"""


def append(planning: Planning, title: str, body: str, signature: str = "") -> str:
    """Add an entry and return its timestamp. The signature is one line in italics: who wrote it, and with what."""
    title, body = one_line(title.strip()), body.strip()
    if not title or not body:
        raise ConfigError("a decision needs a title and a body")
    now = planning.now()
    text = f"\n## {now} — {title}\n\n{body}" + (f"\n\n_{one_line(signature)}_" if signature else "")
    path = planning.path("ledger", "decisions.md")
    make_dirs(os.path.dirname(path))
    append_lines(path, [line.encode(errors="surrogateescape") for line in text.split("\n")], mode=0o644)
    planning.log("decision", "append", title)
    return now


def raise_conflict(
    planning: Planning,
    name: str,
    title: str,
    surfaces: Sequence[str],
    haid: str,
    *,
    displaced: str = "",
    overriding_intent: str = "",
    displaced_intent: str = "",
    via: str = "",
) -> dict[str, str]:
    """Write the record of a conflict and link it from the decisions. Returns where it is, and how the work is kept."""
    check_id(name, "conflict id")
    if not title.strip():
        raise ConfigError("a conflict needs a title")
    file = f"{planning.now()[:10]}-{name}.md"
    path = planning.path("ledger", "conflicts", file)
    branch = f"displaced/{displaced.replace(':', '_').replace('/', '_') or 'unknown'}-{name}"
    text = RECORD.format(
        name=name,
        title=one_line(title.strip()),
        date=planning.now(),
        haid=haid,
        displaced=one_line(displaced) or UNSPECIFIED,
        surfaces="\n".join(f"  - `{one_line(surface)}`" for surface in surfaces),
        overriding_intent=overriding_intent.strip() or UNSPECIFIED,
        displaced_intent=displaced_intent.strip() or UNSPECIFIED,
        branch=branch,
    )
    with planning.lock("conflicts"):
        if os.path.exists(path):
            raise ConfigError(f"conflict {name} was already raised today: {path}", hint="give it another id")
        write_text(path, text)
    # The record comes before its link: a crash in between leaves one that no line names, never a line to nothing.
    link = f"See [conflicts/{file}](conflicts/{file}): {one_line(title.strip())}"
    append(planning, f"conflict {name} raised", link, via)
    return {
        "conflict_file": path,
        "relative_path": f"ledger/conflicts/{file}",
        "preserved_branch": branch,
        "pr_path": f"open a pull request from branch conflict/{name} with ledger/conflicts/{file}",
        "haid": haid,
    }
