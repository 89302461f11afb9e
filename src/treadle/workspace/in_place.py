"""A checkout that an agent works in, without its repository: the agent has a private one, and we take over its commits.

    place = InPlace.of(checkout, directory, "session-1")
    place.mounts                      # for the sandbox: the private git directory over the checkout's `.git`
    await place.ready(inside)         # before a command: the private repository follows what the user has done
    notes = await place.settle(inside)  # after it: the user's repository follows what the agent has done

This is what the sandbox shows, and when one repository follows the other; `takeover.py` is how the user's does.
"""

import asyncio
import os

import msgspec

from treadle.errors import TimedOut, TreadleError
from treadle.io import scratch
from treadle.io.opening import write
from treadle.io.sandbox.places import is_under
from treadle.session import Mount
from treadle.workspace import private_git, staging
from treadle.workspace.base_refs import forget, keep
from treadle.workspace.listing import BadListing, read_listing, ref_files
from treadle.workspace.obeyed import settings_files
from treadle.workspace.takeover import GIT, LIST, ROOM, Inside, Takeover
from treadle.workspace.user_repository import ID, REF, UserRepository

RENEW = f"""
set -e
g() {{ {GIT} "$@"; }}
d=$(g rev-parse --absolute-git-dir)
g update-ref --no-deref --stdin < {ROOM}/in/refs
case $(cat {ROOM}/in/head) in
  refs/*) g symbolic-ref HEAD "$(cat {ROOM}/in/head)" ;;
  *) g update-ref --no-deref HEAD "$(cat {ROOM}/in/head)" ;;
esac
rm -f "$d/index"
[ ! -e {ROOM}/in/index ] || {{ cp {ROOM}/in/index "$d/index" && touch -d "@$(cat {ROOM}/in/when)" "$d/index"; }}
"""
FORMAT = 1
RECORD = "place.json"
OWNED = "lock"
"""Beside the places of a session: locked while it lives."""


class PlaceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to find the work of a session that was killed (`agent/leftovers.py`)."""

    format: int = 0
    top: str
    session: str
    objects: tuple[tuple[str, str], ...] = ()
    """The user's objects, and where the private repository expects them."""


class InPlace(Takeover):
    def __init__(self, user: UserRepository, directory: str, name: str, number: int = 0) -> None:
        """`directory` is ours and becomes the home of the private repository; `number` tells several of them apart."""
        super().__init__(user, directory, name)
        self._room = f"{ROOM}/{number}"
        os.makedirs(directory, mode=0o700)
        named = [value for _, key, value in user.settings() if key.lower() == "core.hookspath" and value]
        self._hooks_named = os.path.expanduser(named[-1]) if named else None
        """The directory of the user's hooks, as configured; relative to the checkout."""
        self._included = settings_files(user)
        self._object_places = user.object_places()
        self._seen_user = self._user_state()
        base = private_git.make(
            self.private,
            user,
            objects=[target for _, target in self._objects()],
            work_tree=user.top if user.linked else None,
            hooks=self._hooks(),
            programs=True,
        )
        private_git.mark(self.private)
        self.head, self.refs = base
        self._keep_base()
        self.mounts = tuple(self._mounts())
        record = PlaceRecord(format=FORMAT, top=user.top, session=name, objects=tuple(self._objects()))
        write(os.path.join(directory, RECORD), msgspec.json.encode(record))
        self.problem = self._keep_commit()
        """What the user should know from the beginning."""
        self._seen = self._private_state()
        self._settled = True

    def is_settled(self) -> bool:
        """Whether the private repository has nothing that the user's has not, or could have."""
        return self._settled and self._private_state() == self._seen

    # What the sandbox shows...

    def _objects(self) -> list[tuple[str, str]]:
        places = self._object_places
        return [(place, f"{self._room}/objects" + (f"-{at}" if at else "")) for at, place in enumerate(places)]

    @property
    def _target(self) -> str:
        return f"{self._room}/git" if self.user.linked else os.path.join(self.user.top, ".git")

    def _hooks(self) -> str:
        """What the private settings say about hooks: nothing for git's usual place, where the user's are mounted."""
        own = os.path.relpath(os.path.realpath(self.hooks_place), self.user.common)
        return "" if self._hooks_named is None or not own.startswith("..") else self._hooks_named

    @property
    def hooks_place(self) -> str:
        """Where the user's hooks are. The sandbox shows them, and they cannot be changed there."""
        return os.path.join(self.user.top, self._hooks_named or os.path.join(self.user.common, "hooks"))

    def _mounts(self) -> list[Mount]:
        user, target = self.user, self._target
        found = [Mount(source=self.private, target=target, write=True)]
        if user.linked:
            pointer = os.path.join(self.directory, "pointer")
            write(pointer, os.fsencode(f"gitdir: {target}\n"))
            found.append(Mount(source=pointer, target=os.path.join(user.top, ".git")))
        for place, at in self._objects():
            found.append(Mount(source=place, target=at))
            if os.path.exists(os.path.join(place, "info", "alternates")):  # its paths are in our own list already
                found.append(Mount(source=self._empty(), target=f"{at}/info/alternates"))
        hooks = os.path.realpath(self.hooks_place)
        inner = [(hooks, "hooks")] if self._hooks() == "" else []
        inner += [(os.path.join(user.common, name), name) for name in ("modules", "lfs")]
        for place, name in inner:
            if os.path.isdir(place):
                shown = f"{self._room}/lfs" if name == "lfs" else f"{target}/{name}"
                if name != "lfs":
                    os.makedirs(os.path.join(self.private, name), exist_ok=True)
                found.append(Mount(source=place, target=shown))
        return found

    def _empty(self) -> str:
        path = os.path.join(self.directory, "empty")
        if not os.path.exists(path):
            write(path, b"")
        return path

    def read_only(self) -> list[str]:
        """Places of the user's repository that would otherwise be writable, because they lie in a workspace."""
        hooks = os.path.realpath(self.hooks_place)
        found = [*self._object_places, self.user.common, self.user.directory, *self._included]
        return found if is_under(self.user.top, hooks) else [*found, hooks]

    # Has anything happened?

    def _user_state(self) -> tuple[object, ...]:
        user = self.user
        files = (user.file("HEAD"), user.file("index"), os.path.join(user.common, "packed-refs"))
        tables = os.path.join(user.common, "reftable", "tables.list")
        ours = os.path.join(user.common, "refs", "treadle") + "/"
        refs = [one for one in _stamps(user.common) if not one[0].startswith(ours)]
        return (*map(_stamp, (*files, tables)), *refs)

    def _private_state(self) -> tuple[object, ...]:
        names = ("HEAD", "index", "packed-refs", "MERGE_HEAD", "rebase-merge", "rebase-apply", "logs/refs/stash")
        stamps = map(_stamp, (os.path.join(self.private, name) for name in names))
        return (*stamps, *_stamps(self.private))

    # Before a command: from the user to the agent

    async def ready(self, inside: Inside) -> None:
        """Let the private repository follow what the user has done meanwhile."""
        state = self._user_state()
        if state == self._seen_user and not self.stale:
            return
        head, refs, same = await asyncio.to_thread(self._looked_at)
        if same and not self.stale:
            self._seen_user = state
            return
        if not self.stale and not self.is_settled():
            return  # the agent has moved too, or is in the middle of something: `settle` decides
        changed = [name for name in {*refs, *self.refs} if self.stale or refs.get(name) != self.refs.get(name)]
        commands = [_update(name, refs.get(name)) for name in sorted(changed)]
        given = {"refs": os.fsencode("".join(commands)), "head": os.fsencode(head)}
        index = self.user.file("index")
        if os.path.exists(index):
            given["index"], given["when"] = await asyncio.to_thread(staging.whole_index, self.user)
        await inside(RENEW, given)
        self.head, self.refs, self.stale = head, refs, False
        await asyncio.to_thread(self._keep_base)
        await asyncio.to_thread(self._keep_commit)
        self._seen_user, self._seen = state, self._private_state()

    def _looked_at(self) -> tuple[str, dict[str, str], bool]:
        head, refs = self.user.head(), self._user_refs()
        return head, refs, head == self.head and refs == self.refs and staging.entries(self.user) == self._entries

    def _keep_commit(self) -> str:
        commit = self.refs.get(self.head, "") if REF.fullmatch(self.head) else self.head
        return keep(self.user, self.directory, commit) if ID.fullmatch(commit) else ""

    def remove(self) -> None:
        """Remove the private repository."""
        scratch.remove(self.directory)
        forget(self.user, self.directory)

    def _moved_along(self) -> None:
        super()._moved_along()
        self._seen_user = self._user_state()

    # After a command: from the agent to the user

    async def settle(self, inside: Inside) -> list[str]:
        """Take over what the agent has done. Returns what the user should know; nothing when all was taken over."""
        state = self._private_state()
        if state == self._seen:
            return []
        self._settled = False
        try:
            await asyncio.to_thread(self._check_refs)
            found = read_listing(await inside(LIST, {}))
            notes = await self.take(found, inside)
            self._settled = not found.unfinished and not self._refused
        except TimedOut as error:  # the next command or turn tries again
            later = "it is kept, and taken over by the next turn or session here"
            return self._once(f"what the agent did with git was not taken over: {error}; {later}")
        except (TreadleError, BadListing, OSError) as error:
            notes = self._once(f"what the agent did with git was not taken over: {error}")
        self._seen = self._private_state()
        return notes


def _update(name: str, value: str | None) -> str:
    if not REF.fullmatch(name) or (value or "").startswith("ref: "):
        return ""
    return f"delete {name}\n" if value is None else f"update {name} {value}\n"


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _stamps(git: str) -> list[tuple[str, tuple[int, int, int] | None]]:
    """Of every ref that is a file."""
    return [(path, _stamp(path)) for path in ref_files(git)]
