"""Who wrote a line, in the formats that others read: git-ai's authorship log 3.0.0 under `refs/notes/ai`, and Agent
Trace records 0.1.0 under `refs/notes/agent-trace` (its specification names no place).

Everyone can write a note, and git copies notes to other commits, so what is read here is only ever claimed, and only
where it fits: the note names the commit that it is on, and the file there has the lines that it names. The train's own
records also have each file's blob and hashes of a few lines each, so they are found again after history was rewritten,
on whichever commit they are. In doubt nothing is claimed. All functions block.
"""

import difflib
import hashlib
import os
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple, TypeAlias

import msgspec

from treadle.errors import ConfigError, NotFound, WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import TRAIN
from treadle.io.files import read_if_there
from treadle.landing import bench
from treadle.landing.bench import CommitTrailers, OrderTrailers, read
from treadle.landing.sending import FOLLOWED
from treadle.wire.fleet import keys
from treadle.wire.fleet.records import Used
from treadle.wire.sidecar.receipts import LARGEST
from treadle.workspace import checkouts
from treadle.workspace.user_repository import UserRepository

GIT_AI, TRACE = "refs/notes/ai", "refs/notes/agent-trace"
OURS = "dev.treadle"
"""Our part of a trace record's metadata."""
CHUNK = 8
"""Lines in a range that we write: a change to one of them leaves the others to be found again."""
TELLING = 20
"""Bytes, not counting white space, that a range needs to be known again by its text alone."""
_WRITER = {
    f"GIT_{role}_{name}": value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in (("NAME", "treadle"), ("EMAIL", "treadle@localhost"))
}
_MODEL = re.compile(r"[\w.-]+/\S{1,200}")
"""PROVIDER/MODEL, as trace records name one."""
_ENTRY = re.compile(r" {2}(\S+) (\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)")
_BLAMED = re.compile(rb"([0-9a-f]{40,64}) (\d+) \d+")


class AuthorClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who a note says has written a line."""

    source: str
    """`git-ai` or `agent-trace`."""
    kind: str
    """`ai`, `human`, `mixed` or `unknown`."""
    author: str = ""
    """The tool, or the person."""
    model: str = ""
    session: str = ""
    commit: str = ""
    """The commit of which this was recorded, where it is another one whose text this line has."""


class _AgentId(msgspec.Struct, frozen=True):
    tool: str
    id: str
    model: str


class _Session(msgspec.Struct, frozen=True):
    agent_id: _AgentId


class _Human(msgspec.Struct, frozen=True):
    author: str


class _Log(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of an authorship log."""

    schema_version: str
    base_commit_sha: str
    prompts: dict[str, _Session] = {}
    sessions: dict[str, _Session] = {}
    humans: dict[str, _Human] = {}


class _Contributor(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    model_id: str = ""


class _Range(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    start_line: int
    end_line: int
    content_hash: str = ""
    contributor: _Contributor | None = None


class _Conversation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    url: str = ""
    contributor: _Contributor | None = None
    ranges: tuple[_Range, ...]


class _File(msgspec.Struct, frozen=True):
    path: str
    conversations: tuple[_Conversation, ...]


class _Revision(msgspec.Struct, frozen=True):
    type: str
    revision: str


class _Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str = ""


class _Trace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    version: str
    id: str
    timestamp: str
    vcs: _Revision
    tool: _Tool = _Tool()
    files: tuple[_File, ...]
    metadata: dict[str, msgspec.Raw] = {}


class _Own(msgspec.Struct, frozen=True):
    """What we add to a trace record."""

    blobs: dict[str, str]
    agents: dict[str, str]
    """The agent of each conversation."""
    at: int
    """When the commit was made: an older one is no copy of it."""


# Reading...


def git_lines(data: bytes) -> list[bytes]:
    """Cut as git numbers them: a carriage return alone ends none."""
    return re.findall(rb"[^\n]*\n|[^\n]+", data)


def content(user: UserRepository, commit: str, name: str) -> list[bytes]:
    done = user.run("cat-file", "blob", f"{commit}:{name}", check=False)
    if done.code != 0:
        raise NotFound(f"{name} is not in {commit[:12]}", hint="only what is committed has a history")
    return git_lines(done.stdout)


def has(user: UserRepository, tip: str, commit: str) -> bool:
    return user.run("merge-base", "--is-ancestor", commit, tip, check=False).code == 0


def claimed(user: UserRepository, commit: str, name: str) -> dict[int, tuple[AuthorClaim, ...]]:
    """What notes claim of the lines of a file that git says were written in this commit."""
    lines = content(user, commit, name)
    found: dict[int, tuple[AuthorClaim, ...]] = {}
    for source in (_logged(user, commit, name, len(lines)), _traced(user, commit, name, lines)):
        for line, claim in source.items():
            found[line] = (*found.get(line, ()), claim)
    return found


_Span: TypeAlias = tuple[int, int, AuthorClaim | None]
"""First line, last line, and who has written them."""


def _agreed(spans: Iterable[_Span]) -> dict[int, AuthorClaim]:
    """A line with two authors has none that we could name."""
    named: dict[int, set[AuthorClaim | None]] = defaultdict(set)
    for first, last, claim in spans:
        for line in range(first, last + 1):
            named[line].add(claim)
    return {line: claim for line, (claim, *more) in named.items() if claim is not None and not more}


def _inside(spans: Sequence[_Span], count: int) -> Sequence[_Span]:
    """Nothing, if one of them names a line that the file does not have."""
    return spans if all(1 <= first <= last <= count for first, last, _ in spans) else ()


def _logged(user: UserRepository, commit: str, name: str, count: int) -> dict[int, AuthorClaim]:
    attested, _, rest = _note(user, GIT_AI, commit).partition("\n---\n")
    try:
        log = msgspec.json.decode(rest, type=_Log)
        spans = [(first, last, _author(log, key)) for path, key, first, last in _attested(attested) if path == name]
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}
    # The specification also knows the parent here, but such a note looks the same after git copied it to an amended
    # commit whose lines are others. git-ai itself writes the commit.
    if not log.schema_version.startswith("authorship/3.") or log.base_commit_sha != commit:
        return {}
    return _agreed(_inside(spans, count))


def _attested(text: str) -> Iterator[tuple[str, str, int, int]]:
    path = ""
    for row in text.split("\n"):
        if not row.startswith(" "):
            path = row[1:-1] if len(row) > 1 and row[0] == row[-1] == '"' else row
            continue
        entry = _ENTRY.fullmatch(row)
        if entry is None or not path:
            raise ValueError(row)
        for part in entry[2].split(","):
            first, _, last = part.partition("-")
            yield path, entry[1], int(first), int(last or first)


def _author(log: _Log, key: str) -> AuthorClaim | None:
    if key.startswith("h_"):
        human = log.humans.get(key)
        return AuthorClaim(source="git-ai", kind="human", author=human.author) if human is not None else None
    session = log.sessions.get(key.partition("::")[0]) if key.startswith("s_") else log.prompts.get(key)
    if session is None:
        return None
    agent = session.agent_id
    return AuthorClaim(source="git-ai", kind="ai", author=agent.tool, model=agent.model, session=agent.id)


def _note(user: UserRepository, ref: str, commit: str) -> str:
    """Empty also for one that is too large: everyone can write it, and the line has an origin without it."""
    with suppress(WorkspaceError):
        return (user.note(ref, commit, LARGEST) or b"").decode("utf-8", "replace")
    return ""


def _traced(user: UserRepository, commit: str, name: str, lines: list[bytes]) -> dict[int, AuthorClaim]:
    blob = user.run("rev-parse", f"{commit}:{name}").stdout.decode().strip()
    here = [each for each in _records(_note(user, TRACE, commit)) if each.vcs == _Revision("git", commit)]
    if here:
        fitting = [each for each in here if OURS not in each.metadata or _has_blob(each, name, blob)]
        return _agreed(span for each in fitting for span in _inside(_spans(each, name), len(lines)))
    made = int(user.run("log", "-1", "--no-show-signature", "--format=%ct", commit).stdout)
    known = [(each, own) for each in _naming(user, blob, name) if (own := _own(each)) is not None]
    # What was there before, the order has only moved.
    copied = [(each, own) for each, own in known if own.at <= made and not has(user, each.vcs.revision, commit)]
    same = [
        span
        for each, own in copied
        for path, recorded in own.blobs.items()
        if recorded == blob and (path == name or not _there(user, commit, path))
        for span in _inside(_spans(each, path, copied=True), len(lines))
    ]
    places = _places(lines) if copied else {}
    alike = [span for each, _ in copied for span in _found_again(each, name, places)]
    return _agreed(alike) | _agreed(same)


def _has_blob(record: _Trace, name: str, blob: str) -> bool:
    own = _own(record)
    return own is not None and own.blobs.get(name) == blob


def _there(user: UserRepository, commit: str, path: str) -> bool:
    return user.run("cat-file", "-e", f"{commit}:{path}", check=False).code == 0


def _records(text: str) -> list[_Trace]:
    """One record, or one in each line. A note with anything else in it says nothing."""
    for parts in ([text], list(filter(str.strip, text.split("\n")))):
        try:
            return [msgspec.json.decode(part, type=_Trace) for part in parts]
        except (msgspec.DecodeError, RecursionError):
            continue
    return []


def _own(record: _Trace) -> _Own | None:
    try:
        return msgspec.json.decode(record.metadata[OURS], type=_Own) if OURS in record.metadata else None
    except msgspec.DecodeError:
        return None


def _naming(user: UserRepository, blob: str, name: str) -> list[_Trace]:
    """The records, on whichever commit, that name this blob or this file."""
    words = ("-e", blob, "-e", _path_member(name))
    listed = user.run("grep", "-lzF", "--no-textconv", *words, TRACE, "--", check=False, timeout=600)
    places = listed.stdout.decode().split("\0")[:-1] if listed.code == 0 else []
    texts = set[bytes]()
    for place in places:
        with suppress(WorkspaceError):
            texts.add(user.blob(place, LARGEST))
    return [record for text in sorted(texts) for record in _records(text.decode("utf-8", "replace"))]


def _path_member(name: str) -> str:
    return f'"path":{msgspec.json.encode(name).decode()}'


def _spans(record: _Trace, path: str, *, copied: bool = False) -> list[_Span]:
    """As the record numbers them. `copied`: what is asked about is another commit than the record's."""
    named = _ranges(record, path)
    return [(each.start_line, each.end_line, _contributor(record, talk, each, copied)) for talk, each in named]


def _places(lines: list[bytes]) -> dict[tuple[int, str], list[int]]:
    """How many lines with which hash begin at which lines."""
    found = defaultdict(list)
    for size in range(1, CHUNK + 1):
        for start in range(len(lines) - size + 1):
            found[size, _hash(lines[start : start + size])].append(start + 1)
    return found


def _found_again(record: _Trace, path: str, places: Mapping[tuple[int, str], list[int]]) -> Iterator[_Span]:
    """The ranges whose text the file has once."""
    for talk, each in _ranges(record, path):
        size = each.end_line - each.start_line + 1
        starts = places.get((size, each.content_hash), [])
        if len(starts) == 1:
            yield starts[0], starts[0] + size - 1, _contributor(record, talk, each, copied=True)


def _ranges(record: _Trace, path: str) -> Iterator[tuple[_Conversation, _Range]]:
    for file in record.files:
        if file.path == path:
            for talk in file.conversations:
                for each in talk.ranges:
                    yield talk, each


def _contributor(record: _Trace, talk: _Conversation, each: _Range, copied: bool) -> AuthorClaim:
    by, own = each.contributor or talk.contributor or _Contributor("unknown"), _own(record)
    author = "" if by.type == "human" else own.agents.get(talk.url, "") if own is not None else record.tool.name
    commit = record.vcs.revision if copied else ""
    return AuthorClaim(
        source="agent-trace", kind=by.type, author=author, model=by.model_id, session=talk.url, commit=commit
    )


# Writing...


def write(user: UserRepository, old: str, new: str) -> None:
    """Write both notes for each commit that landed with a car, of the lines that git finds in it. The car itself is a
    merge, in which git finds no line. A note that is there stays: one commit has one log."""
    message = user.run("log", "-1", "--no-show-signature", "--format=%B%x00%P", new).stdout.decode("utf-8", "replace")
    text, _, parents = message.partition("\0")
    orders = read(text).orders
    sides = dict(zip(parents.split()[1:], orders, strict=False))
    for work, files in _written(user, old, new).items():
        order = next((each for side, each in sides.items() if has(user, side, work)), None)
        if order is None:
            continue
        for ref, made in ((GIT_AI, _log(work, files, order)), (TRACE, _record(user, old, work, files, order))):
            if user.run("notes", f"--ref={ref}", "list", work, check=False).code != 0:
                user.run("notes", f"--ref={ref}", "add", "-F", "-", work, stdin=made.encode(), env=_WRITER)


def _written(user: UserRepository, old: str, new: str) -> dict[str, dict[str, list[int]]]:
    """Commit -> file -> the lines that it has brought to the branch, numbered as they are there."""
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in user.run("diff", "--numstat", "-z", "--no-renames", old, new).stdout.split(b"\0")[:-1]:
        added, _, path = row.split(b"\t", 2)
        name = path.decode("utf-8", "replace")
        if not added.isdigit() or added == b"0" or name.encode() != path:
            continue  # not text, or a name that neither format can hold
        options = ("--line-porcelain", "--no-textconv", "--ignore-revs-file=", f"{old}..{new}")
        done = user.run("blame", *options, "--", name, check=False, timeout=600)
        for block in re.split(rb"^\t.*\n?", done.stdout, flags=re.M) if done.code == 0 else ():
            head, file = _BLAMED.match(block), re.search(rb"^filename (.+)$", block, re.M)
            if head is not None and file is not None and b"\nboundary\n" not in block:
                found[head[1].decode()][file[1].decode("utf-8", "replace")].append(int(head[2]))
    return found


def _runs(numbers: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Lines that follow each other, as first and last, at most so many together."""
    runs = []
    for _, group in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        runs += [(run[at], run[min(at + size, len(run)) - 1]) for at in range(0, len(run), size)]
    return runs


def _agent(order: OrderTrailers) -> tuple[str, str]:
    """The agent's name and its model, from `NAME (MODEL)`."""
    tool, _, model = order.agent.partition(" (")
    return tool or "unknown", model.removesuffix(")")


def _log(commit: str, files: dict[str, list[int]], order: OrderTrailers) -> str:
    tool, model = _agent(order)
    session = f"s_{hashlib.sha256(f'{tool}:{order.order}'.encode()).hexdigest()[:14]}"
    key = f"{session}::t_{hashlib.sha256(commit.encode()).hexdigest()[:14]}"
    rows = []
    for name, numbers in sorted(files.items()):
        if not re.search(r'["\n]|^---$', name):
            spans = [f"{first}-{last}" if last > first else f"{first}" for first, last in _runs(numbers, len(numbers))]
            rows += [f'"{name}"' if re.search(r"\s", name) else name, f"  {key} {','.join(spans)}"]
    agent = _AgentId(tool, order.order, model or "unknown")
    log = _Log(schema_version="authorship/3.0.0", base_commit_sha=commit, sessions={session: _Session(agent)})
    return "\n".join([*rows, "---", msgspec.json.format(msgspec.json.encode(log)).decode()]) + "\n"


def _record(user: UserRepository, old: str, commit: str, files: dict[str, list[int]], order: OrderTrailers) -> str:
    tool, model = _agent(order)
    at = int(user.run("log", "-1", "--no-show-signature", "--format=%ct", commit).stdout)
    url = f"treadle:order/{order.order}"
    by = _Contributor("ai", model if _MODEL.fullmatch(model) else "")
    made, blobs = [], {}
    for name, numbers in sorted(files.items()):
        lines = content(user, commit, name)
        before = b"".join(content(user, old, name)) if _there(user, old, name) else b""
        blobs[name] = user.run("rev-parse", f"{commit}:{name}").stdout.decode().strip()
        ranges = [_range(lines, first, last, before) for first, last in _runs(numbers, CHUNK)]
        made.append(_File(name, (_Conversation(url=url, contributor=by, ranges=tuple(ranges)),)))
    record = _Trace(
        version="0.1.0",
        id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"treadle:commit/{commit}")),
        timestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)),
        vcs=_Revision("git", commit),
        tool=_Tool("treadle"),
        files=tuple(made),
        metadata={OURS: msgspec.Raw(msgspec.json.encode(_Own(blobs, {url: tool}, at)))},
    )
    return msgspec.json.encode(record).decode() + "\n"


def _range(lines: list[bytes], first: int, last: int, before: bytes) -> _Range:
    """With a hash of its text, if that says enough and is new in this file: what was moved has another author."""
    text = lines[first - 1 : last]
    telling = len(b"".join(b"".join(text).split())) >= TELLING and b"".join(text) not in before
    return _Range(start_line=first, end_line=last, content_hash=_hash(text) if telling else "")


def _hash(lines: Sequence[bytes]) -> str:
    return f"sha256:{hashlib.sha256(b''.join(lines)).hexdigest()}"


# Which order a line came from, read from the branch's own line of commits and from what the fleet keeps of the order.
#
# git says in which commit of the branch a line arrived; a commit of the train names its orders. Where it has several,
# the order is the one whose work the line is in. Blocks; only `with_fleet_records` asks the fleet.


MERGES = 10
"""How many merges within merges are looked into."""
_HEAD = re.compile(r"([0-9a-f]{40,64}) (\d+) \d+")
_NAME = re.compile(r"^filename (.+)$", re.M)


class LineOrigin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a line came from. Without `order`, no order brought it."""

    file: str
    line: int
    text: str
    commit: str
    """The commit of the branch with which it arrived."""
    at: float
    author: str
    subject: str
    order: str = ""
    goal: str = ""
    agent: str = ""
    receipt: str = ""
    tree: str = ""
    """The tree that was checked before it landed."""
    work: str = ""
    """The commit of the order's own in which the line was written."""
    proved: bool | None = None
    """Whether the fleet has recorded this landing itself; None when it could not be asked or remembers nothing, so that
    order, goal, agent and receipt are the commit's own word. False also where the commit names another tree."""
    claims: tuple[AuthorClaim, ...] = ()
    """Who notes of other tools' formats say has written it. No one has proved that."""
    title: str = ""
    task: str = ""
    verify: str = ""
    attempts: int = 0
    first: str = ""
    """The order that asked for it, where this one's work landed for that, after it was sent back."""
    used: Used | None = None
    """Of all these orders together. None: the fleet remembers nothing of the order, so the cost is not known."""


def place_of(text: str) -> tuple[str, int]:
    """`FILE:LINE`; the file's name may have colons itself."""
    path, _, number = text.rpartition(":")
    if not path or not number.isdigit() or int(number) < 1:
        raise ConfigError(f"{text!r} is not FILE:LINE", hint="for example prices.py:12")
    return path, int(number)


def origin(path: str, line: int, revision: str = "") -> LineOrigin:
    """Where this line of a file came from. Without a revision: as the file is now, of what is checked out."""
    user = checkouts.around(os.path.dirname(os.path.abspath(path)))
    place = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    name = os.path.relpath(place, os.path.realpath(user.top))
    start = _commit(user, revision or "HEAD")
    committed = content(user, start, name)
    number = line if revision else _committed_line(committed, read_if_there(place), line, name)
    if number > len(committed):
        raise NotFound(f"{name} has {len(committed)} lines", hint="give the number of one of them")
    text = committed[number - 1].decode("utf-8", "replace").rstrip("\r\n")
    there, recorded, written = _arrived(user, start, name, number)
    fields = user.run("log", "-1", "--no-show-signature", "--format=%ct%x00%an%x00%s", there.commit).stdout
    at, author, subject = fields.decode("utf-8", "replace").split("\0")
    found = LineOrigin(
        file=name,
        line=line,
        text=text,
        commit=there.commit,
        at=float(at),
        author=author,
        subject=subject.strip(),
        claims=claimed(user, written.commit, written.name).get(written.line, ()),
    )
    if not recorded.orders:
        return found
    own = _own_order(user, there.commit, written.commit, recorded)
    # Everyone can write a trailer. One that names another tree than the commit's own was not written by the train.
    right = recorded.tree == user.run("rev-parse", f"{there.commit}^{{tree}}").stdout.decode().strip()
    proved = None if right or not recorded.tree else False
    tree = recorded.tree if right else ""
    return msgspec.structs.replace(found, tree=tree, work=written.commit, proved=proved, **msgspec.structs.asdict(own))


class _Place(NamedTuple):
    commit: str
    name: str
    line: int


def _arrived(user: UserRepository, start: str, name: str, line: int) -> tuple[_Place, CommitTrailers, _Place]:
    """The commit with which a line arrived, what it says of itself, and where the line was written.

    A person or a forge may have merged what the train made: then the train's commit is on that side of the merge.
    """
    written = _blamed(user, _Place(start, name, line))
    first = place = _blamed(user, _Place(start, name, line), "--first-parent")
    for _ in range(MERGES):
        message = user.run("log", "-1", "--no-show-signature", "--format=%B", place.commit).stdout
        recorded = bench.read(message.decode("utf-8", "replace"))
        side = next((each for each in _parents(user, place.commit) if has(user, each, written.commit)), None)
        if recorded.orders or side is None:
            return (place, recorded, written) if recorded.orders else (first, CommitTrailers(), written)
        now, then = content(user, place.commit, place.name), content(user, side, place.name)
        try:
            number = _committed_line(then, b"".join(now), place.line, place.name)
        except WorkspaceError:
            break
        place = _blamed(user, _Place(side, place.name, number), "--first-parent")
    return first, CommitTrailers(), written


def _parents(user: UserRepository, commit: str) -> list[str]:
    """What was merged into the branch with this commit."""
    return user.run("log", "-1", "--format=%P", commit).stdout.decode().split()[1:]


def _commit(user: UserRepository, revision: str) -> str:
    done = user.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", check=False)
    if done.code != 0:
        raise NotFound(f"{user.top} has no commit {revision}")
    return done.stdout.decode().strip()


def _committed_line(committed: list[bytes], now: bytes | None, line: int, name: str) -> int:
    """The number that a line of the file as it is now has in the commit."""
    lines = committed if now is None else git_lines(now)
    if lines == committed or line > len(lines):
        return line
    for block in difflib.SequenceMatcher(None, committed, lines, autojunk=False).get_matching_blocks():
        if block.b < line <= block.b + block.size:
            return block.a + line - block.b
    raise WorkspaceError(f"{name}:{line} is not committed yet, so no order wrote it", hint="git diff shows it")


def _blamed(user: UserRepository, place: _Place, *how: str) -> _Place:
    """Where git says that a line came from. No program that the repository's settings name is run for it."""
    options = ("--porcelain", "--no-textconv", "--ignore-revs-file=", "-L", f"{place.line},{place.line}", *how)
    done = user.run("blame", *options, place.commit, "--", place.name, timeout=600)
    text = os.fsdecode(done.stdout)
    head, named = _HEAD.match(text), _NAME.search(text)
    if head is None or named is None:
        raise WorkspaceError(f"git blame has no result for {place.name}:{place.line}")
    return _Place(head[1], named[1], int(head[2]))


def _own_order(user: UserRepository, car: str, work: str, recorded: CommitTrailers) -> OrderTrailers:
    """The order of a car whose work has this commit. A line that only the merge made belongs to all of them."""
    parents = _parents(user, car)
    if len(recorded.orders) == 1 or len(parents) != len(recorded.orders):
        return recorded.orders[0]
    for order, parent in zip(recorded.orders, parents, strict=True):
        if has(user, parent, work):
            return order
    return OrderTrailers(order=", ".join(each.order for each in recorded.orders))


async def with_fleet_records(bus: Bus, found: LineOrigin) -> LineOrigin:
    """Add what the fleet knows: what was asked for, its cost, and whether the fleet recorded this landing."""
    proofs = await bus.named([keys.LANDED(found.order)]) if found.order else {}
    records = [keys.LANDED.read(entry.value, entry.key) for entry in proofs.values()]
    if records:
        proof = next((each for each in records if each.commit == found.commit), None)
        found = msgspec.structs.replace(found, proved=proof is not None, verify=proof.verify if proof else "")
    try:
        spec, order = await client.get_spec(bus, found.order), await client.get_order(bus, found.order)
    except NotFound:
        return found
    known = msgspec.structs.replace(
        found,
        title=order.title,
        task=spec.task,
        verify=found.verify or spec.verify,
        attempts=len(order.attempts),
        used=order.used,
    )
    for _ in range(FOLLOWED):  # back to who was asked for it
        if spec.by != TRAIN or not spec.retry_of:
            break
        try:
            spec, order = await client.get_spec(bus, spec.retry_of), await client.get_order(bus, spec.retry_of)
        except NotFound:
            break
        used = order.used.plus(known.used or Used())
        known = msgspec.structs.replace(known, first=spec.id, title=order.title, task=spec.task, used=used)
    return known
