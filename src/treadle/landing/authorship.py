"""Who wrote a line, in the formats that others read: git-ai's authorship log 3.0.0 under `refs/notes/ai`, and Agent
Trace records 0.1.0 under `refs/notes/agent-trace` (its specification names no place).

Everyone can write a note, and git copies notes to other commits, so what is read here is only ever claimed, and only
where it fits: the note names the commit that it is on, and the file there has the lines that it names. The train's own
records also have each file's blob and hashes of a few lines each, so they are found again after history was rewritten,
on whichever commit they are. In doubt nothing is claimed. All functions block.
"""

import hashlib
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

import msgspec

from treadle.errors import NotFound
from treadle.landing.bench import OrderTrailers, read
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
    listed = user.run("notes", f"--ref={ref}", "list", commit, check=False)
    if listed.code != 0:
        return ""
    return user.run("cat-file", "blob", listed.stdout.decode().strip()).stdout.decode("utf-8", "replace")


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
    texts = {user.run("cat-file", "blob", place).stdout for place in places}
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
