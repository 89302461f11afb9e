"""Makes the private git directory of an agent: it commits, branches and rebases there, not in the user's repository.

    user = UserRepository.at(checkout)
    made = make(directory, user)                                # to be mounted over the checkout's `.git`
    make(f"{fresh}/.git", user, head="refs/heads/x", at=commit)  # or simply the `.git` of a new directory

It has the user's refs, index and harmless settings as copies, and borrows the user's objects, which are only read. From
the first command on the directory is the agent's: no git of ours runs in it any more, because its settings can name
programs.

Filters that are set up for all repositories, as Git LFS is on many machines, count there as those of the repository do,
whether or not the sandbox shows the files that name them: where filters are copied they run, elsewhere they are off.
"""

import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from treadle.errors import NotFound, TreadleError, WorkspaceError
from treadle.io import tasks
from treadle.io.descriptors import copy_file
from treadle.io.files import read_at_most, write
from treadle.io.process.programs import run_program
from treadle.workspace.git import OPTIONS, environment
from treadle.workspace.user_repository import ID, REF, UserRepository

# What a git inside a sandbox says about its repository: text that an agent may have forged, so nothing is assumed.

MODES = {"100644", "100755", "120000", "160000"}
STATES = {"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply", "sequencer"}
_ENTRY = re.compile(rb"(?:([A-Za-z?]) )?(\d{6}) ([0-9a-f]{40,64}) ([0-3])\t(.+)", re.S)
HEADS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "MERGE_MSG")
MOST_STASHES = 50


DEEPEST = 60
MOST_REFS = 200_000


def ref_files(git: str) -> list[str]:
    """What is below `refs` of a git directory that an agent could write, without directories. Links are listed, also
    `refs` itself if it is one, and not followed. What is deeper or more than any repository has is left out."""
    found: list[str] = []
    todo = [(os.path.join(git, "refs"), 0)]
    while todo and len(found) + len(todo) < MOST_REFS:
        tasks.check()
        place, depth = todo.pop()
        if os.path.islink(place):
            found.append(place)
            continue
        try:
            with os.scandir(place) as entries:
                for entry in itertools.islice(entries, MOST_REFS):
                    if not entry.is_dir(follow_symlinks=False):
                        found.append(entry.path)
                    elif depth < DEEPEST:
                        todo.append((entry.path, depth + 1))
        except OSError:
            continue  # gone, or no directory
    return sorted(found)


class BadListing(Exception):
    """What was listed cannot be a repository's state."""


class Staged(NamedTuple):
    """One entry of an index, without its stage and flags."""

    mode: str
    id: str


class GitListing(NamedTuple):
    head: str
    refs: dict[str, str]
    entries: dict[bytes, Staged]
    skipped: frozenset[bytes]
    """Paths that a sparse checkout leaves out."""
    conflicts: tuple[tuple[bytes, Staged, str], ...]
    unfinished: tuple[str, ...]
    stashes: tuple[str, ...]
    heads: Mapping[str, bytes]
    """The files of an unfinished merge, such as MERGE_HEAD."""
    pack: bytes
    """Objects that its refs need and the user's repository may not have."""

    def at(self, head: str) -> str | None:
        """The commit that HEAD or a branch is at; None for a branch without commits."""
        return self.refs.get(head) if REF.fullmatch(head) else head

    def commits(self, name: str) -> list[str]:
        """What a file of an unfinished merge names, such as MERGE_HEAD; an octopus has several."""
        lines = os.fsdecode(self.heads.get(name, b"")).split()
        if any(not ID.fullmatch(one) for one in lines):
            raise BadListing(f"its {name} is {' '.join(lines)[:100]!r}")
        return lines


def read_listing(files: Mapping[str, bytes]) -> GitListing:
    head = os.fsdecode(files.get("head", b"")).strip()
    if not REF.fullmatch(head) and not ID.fullmatch(head):
        raise BadListing(f"its HEAD is {head[:100]!r}")
    if REF.fullmatch(head) and not head.startswith("refs/heads/"):
        raise BadListing(f"its HEAD is {head[:100]!r}, which is not a branch")
    entries, skipped, conflicts = read_entries(files.get("index", b""))
    states = os.fsdecode(files.get("unfinished", b"")).split()
    stashes = os.fsdecode(files.get("stash", b"")).split()
    return GitListing(
        head=head,
        refs=_refs(os.fsdecode(files.get("refs", b""))),
        entries=entries,
        skipped=skipped,
        conflicts=conflicts,
        unfinished=tuple([name for name in states if name in STATES] or (["conflicts"] if conflicts else [])),
        stashes=tuple(one for one in stashes[:MOST_STASHES] if ID.fullmatch(one)),
        heads={name: data for name, data in files.items() if name in HEADS},
        pack=files.get("pack", b""),
    )


def known_as(refs: Iterable[str]) -> dict[str, set[str]]:
    """The refs by what a person types for them: `main` is a branch, and perhaps a tag."""
    found: dict[str, set[str]] = {}
    for name in refs:
        found.setdefault(_typed(name), set()).add(name)
    return found


def misleads(name: str, known: Mapping[str, set[str]]) -> bool:
    """Whether what a person types would mean something else because of this ref: an option, HEAD, a commit, or one of
    several refs. Git's own commands refuse most of these names."""
    typed = _typed(name)
    strange = typed.startswith(("-", "refs/")) or typed.rpartition("/")[2] == "HEAD" or ID.fullmatch(typed)
    return typed != name and bool(strange) or len(known.get(typed, set()) | {name}) > 1


def _typed(name: str) -> str:
    return re.sub(r"refs/(heads|tags|remotes)/", "", name, count=1)


def _refs(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        at, name, target = [*line.split(" "), "", ""][:3]
        if not REF.fullmatch(name) or not ID.fullmatch(at):
            raise BadListing(f"it lists the ref {line[:200]!r}")
        found[name] = f"ref: {target}" if target else at
    return found


def read_entries(listed: bytes) -> tuple[dict[bytes, Staged], frozenset[bytes], tuple[tuple[bytes, Staged, str], ...]]:
    """The output of `git ls-files -t --stage -z`: entries by path, paths that are left out, and those in conflict."""
    entries: dict[bytes, Staged] = {}
    skipped, conflicts = set(), []
    for record in filter(None, listed.split(b"\0")):
        match = _ENTRY.fullmatch(record)
        if match is None or match[2].decode() not in MODES:
            raise BadListing(f"its index lists {record[:100]!r}")
        entry, path = Staged(match[2].decode(), match[3].decode()), match[5]
        if match[4] != b"0":
            conflicts.append((path, entry, match[4].decode()))
            continue
        entries[path] = entry
        if match[1] == b"S":
            skipped.add(path)
    return entries, frozenset(skipped), tuple(conflicts)


_WORD = r"[\w.+-]{1,64}"
_TEXT = r"[^\x00-\x1f\x7f]{0,1000}"
_REFSPEC = r"[+^]?(?:refs/)?[\w./*@{}#+-]*(?::(?:refs/)?[\w./*@{}#+-]*)?"
_PLACE = r"(?!-)(?!\w+::)[^\x00-\x20\x7f]{1,2000}"
ALLOWED: tuple[tuple[str, str], ...] = (
    (r"(user|author|committer)\.(name|email|useconfigonly)", _TEXT),
    (r"remote\..+\.(url|pushurl)", _PLACE),
    (r"remote\..+\.(fetch|push)", _REFSPEC),
    (r"remote\..+\.(promisor|prune|prunetags|tagopt|partialclonefilter)", r"[\w:.=-]{0,200}"),
    (r"branch\..+\.(remote|merge|rebase|pushremote)", r"(?!-)[\w./@{}#+-]{0,500}"),
    (r"submodule\..+\.(url|branch)", _PLACE),
    (r"submodule\..+\.(active|update)", r"true|false|checkout|rebase|merge|none"),
    (
        r"core\.(autocrlf|eol|safecrlf|filemode|ignorecase|precomposeunicode|symlinks|quotepath|abbrev|sparsecheckout"
        r"|sparsecheckoutcone|longpaths|protecthfs|protectntfs|checkstat|trustctime|bigfilethreshold|compression)",
        _WORD,
    ),
    (r"core\.(whitespace|commentchar)", _TEXT),
    (r"extensions\.(objectformat|partialclone)", _WORD),
    (r"(index\.(version|sparse)|init\.defaultbranch|pull\.(rebase|ff)|fetch\.(prune|prunetags))", r"[\w./+-]{0,200}"),
    (r"(push\.(default|autosetupremote|followtags)|merge\.(ff|conflictstyle|renames))", _WORD),
    (r"(rebase\.(autosquash|autostash|updaterefs)|rerere\.(enabled|autoupdate))", _WORD),
    (r"(diff\.(algorithm|renames|mnemonicprefix|noprefix)|status\.(showuntrackedfiles|relativepaths))", _WORD),
)
"""The settings of a repository that are copied: the key, in small letters, and the value must both match."""
PROGRAMS = ((r"filter\..+\.(clean|smudge|process|required)", r"[^\x00-\x1f\x7f]{0,2000}"),)
"""Filters that the user has set up, for this repository or for all. They are copied only where every git that reads
them runs in a sandbox and the user's large files are at hand: without them, large files would be committed as they are
instead of as pointers. Elsewhere the large file behind a pointer would be lost with the directory."""
OURS = {
    "core.fsmonitor": "false",
    "core.logAllRefUpdates": "true",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "tag.forceSignAnnotated": "false",
    "push.gpgSign": "false",
}
"""The user's objects cannot be written, so there is nothing to tidy; and the user's signing key is not there."""
PRIVATE_REFS = ("refs/stash", "refs/treadle/", "refs/bisect/", "refs/rewritten/", "refs/worktree/")
"""Refs that belong to one checkout or to us. They are neither copied nor taken over."""
MARK = "treadle-private"
"""A file that tells our own programs inside that the user's git directory is not here. Nothing outside believes it."""
COPIED = ("shallow", "info/exclude", "info/attributes", "info/sparse-checkout")
LARGEST = 16 << 20
"""Bytes of a copied file of git's; a larger one is refused and not cut."""


class Base(NamedTuple):
    """What the private directory was made from."""

    head: str
    refs: dict[str, str]


def make(
    place: str,
    user: UserRepository,
    *,
    objects: Sequence[str] | None = None,
    head: str | None = None,
    at: str | None = None,
    work_tree: str | None = None,
    hooks: str | None = None,
    programs: bool = False,
    refs: dict[str, str] | None = None,
) -> Base:
    """Make the directory `place`, which must not exist. Returns the state that it begins with.

    `objects`: where git will see the user's objects, by default where they are. `head`: the ref or the commit to begin
    on, by default the user's, with a copy of the user's index. `at`: the commit of that ref; the index is then made
    from it. `work_tree`: the checkout, where `.git` in it is a file. `hooks`: where git will see hooks; by default none
    run. `programs`: whether to copy filters too. `refs`: those to begin with, by default the user's of now.
    """
    known = user.refs() if refs is None else refs
    refs = {name: value for name, value in known.items() if not name.startswith(PRIVATE_REFS)}
    begins = head or user.head()
    if not REF.fullmatch(begins) and not ID.fullmatch(begins):
        raise WorkspaceError(f"HEAD of {user.top} is neither a branch nor a commit: {begins[:200]!r}")
    if at is not None and REF.fullmatch(begins):
        refs[begins] = at
    for directory in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks", "logs"):
        os.makedirs(os.path.join(place, directory), mode=0o700)
    _write(place, "HEAD", f"ref: {begins}\n" if REF.fullmatch(begins) else f"{begins}\n")
    write_refs(place, refs)
    borrowed = user.object_places() if objects is None else objects
    _write(place, "objects/info/alternates", "".join(f"{one}\n" for one in borrowed))
    _write(place, "config", _config(user, work_tree, hooks, programs))
    for name in COPIED:
        _copy_small(os.path.join(user.common, name), os.path.join(place, name))
    if user.linked:  # a worktree may have its own
        _copy_small(user.file("info/sparse-checkout"), os.path.join(place, "info/sparse-checkout"))
    if head is None and at is None:
        copy_index(user, place)
    else:
        _read_tree(place, user, at or begins)
    return Base(begins, refs)


def mark(place: str) -> None:
    """Say that this directory is shown instead of the user's. One that is simply that of a new directory is not."""
    _write(place, MARK, "This git directory is an agent's own; what it commits is taken over by Treadle outside.\n")


def write_refs(place: str, refs: dict[str, str]) -> None:
    """Refs in a new git directory: one file for all, and one for each that names another."""
    packed = [f"{value} {name}\n" for name, value in sorted(refs.items(), key=_by_name) if ID.fullmatch(value)]
    _write(place, "packed-refs", "".join(["# pack-refs with: sorted \n", *packed]))
    for name, value in refs.items():
        if value.startswith("ref: ") and REF.fullmatch(name) and REF.fullmatch(value.removeprefix("ref: ")):
            os.makedirs(os.path.join(place, os.path.dirname(name)), mode=0o700, exist_ok=True)
            _write(place, name, f"{value}\n")


def copy_index(user: UserRepository, place: str) -> None:
    """Copy the index, with the file that it shares its entries with if it is in two parts."""
    index = user.file("index")
    if not os.path.exists(index):
        return
    shared = [name for name in os.listdir(user.directory) if name.startswith("sharedindex.")]
    for name in ("index", *shared):
        copy_file(os.path.realpath(user.file(name)), os.path.join(place, name))


def named_commits(top: str) -> set[str]:
    """What the refs of a checkout's private git directory, which the run could write, name now; read as data."""
    place = os.path.join(top, ".git")
    files = [] if os.path.islink(place) else [os.path.join(place, "HEAD"), *ref_files(place)]
    return {line for line in map(_only_line, files) if ID.fullmatch(line)}


def _only_line(path: str) -> str:
    try:
        return os.fsdecode(read_at_most(path, 200, follow=False)).strip()
    except (OSError, TreadleError):
        return ""


def _read_tree(place: str, user: UserRepository, commit: str) -> None:
    """Nothing but us has written in `place` yet. Its alternates may name a place that exists only in a sandbox."""
    seen = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(f'"{_escaped(one)}"' for one in user.object_places())}
    argv = ["git", f"--git-dir={place}", *OPTIONS, "read-tree", commit]
    done = run_program(argv, cwd=place, env=environment(seen))
    if done.code != 0:
        raise WorkspaceError(f"the index for {commit[:12]} cannot be created: {done.complaint}", retryable=done.passing)


def _by_name(item: tuple[str, str]) -> bytes:
    return os.fsencode(item[0])  # git expects the order of bytes


def _write(place: str, name: str, text: str) -> None:
    write(os.path.join(place, name), os.fsencode(text))


def _copy_small(source: str, target: str) -> None:
    try:
        data = read_at_most(source, LARGEST + 1)
    except OSError:
        return  # not there
    if len(data) > LARGEST:
        raise WorkspaceError(f"{source} is larger than {LARGEST >> 20} MiB")
    write(target, data)


# Settings...

_IDENTITY = re.compile(r"(user|author|committer)\.\w+", re.IGNORECASE)
"""Who commits. It is copied from wherever the person has set it: their home may be hidden, and what it says may depend
on where the git directory is."""

_FILTER = re.compile(r"filter\.", re.IGNORECASE)


def _config(user: UserRepository, work_tree: str | None, hooks: str | None, programs: bool) -> str:
    listed = user.settings()
    own = [(key, value) for scope, key, value in listed if scope in ("local", "worktree") or _IDENTITY.fullmatch(key)]
    everywhere = [(key, value) for scope, key, value in listed if scope in ("system", "global") and _FILTER.match(key)]
    copied = harmless([*everywhere, *own] if programs else own, programs)
    extended = any(key.startswith("extensions.") for key, _ in copied)
    ours = {"core.repositoryformatversion": "1" if extended else "0", "core.bare": "false", **OURS}
    if not programs:
        ours |= {key: "false" if key.lower().endswith(".required") else "" for key, _ in everywhere}
    if hooks != "":
        ours["core.hooksPath"] = hooks or "/dev/null"
    if work_tree is not None:
        ours["core.worktree"] = work_tree
    return "".join(_lines([*copied, *ours.items()]))


def for_everything() -> str:
    """The settings that a person has for all repositories, their name above all, as a file: the harmless ones."""
    argv = ["git", *OPTIONS, "config", "--global", "--list", "--includes", "-z"]
    try:
        listed = run_program(argv, cwd="/", env=environment()).stdout.decode("utf-8", "surrogateescape")
    except NotFound:
        return ""
    entries = (entry.partition("\n") for entry in listed.split("\0")[:-1])
    return "".join(_lines(harmless((key, value) for key, _, value in entries)))


def harmless(settings: Iterable[tuple[str, str]], programs: bool = False) -> list[tuple[str, str]]:
    """Those of the settings that are copied, with passwords taken out of addresses."""
    allowed = ALLOWED + PROGRAMS if programs else ALLOWED
    found = []
    for key, value in settings:
        section, _, rest = key.partition(".")
        name = f"{section.lower()}.{rest.lower()}"
        if re.search(r"[\x00-\x1f\x7f]", key):
            continue
        if any(re.fullmatch(wanted, name) and re.fullmatch(shape, value) for wanted, shape in allowed):
            found.append((key, re.sub(r"^(https?://)[^/@]*@", r"\1", value)))
    return found


def _lines(settings: Iterable[tuple[str, str]]) -> Iterable[str]:
    for key, value in settings:
        section, _, rest = key.partition(".")
        subsection, _, name = rest.rpartition(".")
        yield f'[{section} "{_escaped(subsection)}"]\n' if subsection else f"[{section}]\n"
        yield f'\t{name} = "{_escaped(value)}"\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
