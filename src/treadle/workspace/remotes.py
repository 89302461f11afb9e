"""A branch behind a remote of a person's repository: read by fetch, moved by a push that names what it replaces.

git talks to the other side in a store of ours, with the settings of the person and of the machine (credential helpers,
ssh, proxies) and none of the repository's own: of those we take the address. What arrives is then given to the
repository, as `git fetch` would. A push that failed may have arrived all the same, so what counts is what the branch
is afterwards. All functions block.
"""

import os
import re
import time
from urllib.parse import urlsplit, urlunsplit

from treadle.errors import NotFound, WorkspaceError
from treadle.io import scratch
from treadle.io.files import write
from treadle.io.process.programs import Finished
from treadle.workspace.branch_moves import BranchMoved
from treadle.workspace.git import FETCHING
from treadle.workspace.store import Store
from treadle.workspace.user_repository import REF, UserRepository

LONG = 600.0
TRIES = 3
PAUSE = 1.0
"""Seconds before the other side is asked again, more each time."""
KNOWN_MAX = 200
"""How many commits git is told that the repository has already."""
_FETCH = (
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-prune",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
)
_PUSH = ("--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
_TRUSTED = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "fetch.fsckObjects", "GIT_CONFIG_VALUE_0": "false"}
"""What people have in their history is theirs, also where an old git made it; what agents made is checked elsewhere."""
_INHERITED = ("GIT_SSH_COMMAND", "GIT_SSH", "GIT_ASKPASS")
"""Variables of git's that belong to the one who started us, and say how they sign in."""
_STALE = ("stale info", "fetch first", "non-fast-forward", "needs force")
_BUSY = ("cannot lock ref", "failed to update ref", "incorrect old value", "failed to lock", "unpacker error")
_BROKEN = "unpacker error"
"""The other side could not store what was sent: its git was killed, or its disk is full."""


_WRONG = (
    "Authentication failed",
    "Permission denied",
    "could not read Username",
    "could not read Password",
    "Host key verification failed",
    "not allowed",
)
"""What git says where the address or how one signs in is wrong."""


class PushRefused(WorkspaceError):
    """The other side does not let us move its branch."""

    needs_person = True


class RemoteAway(WorkspaceError):
    """The other side could not be asked. Whether a push arrived all the same, its branch says."""

    code = "remote_away"

    def __init__(self, message: str) -> None:
        self.needs_person = any(words in message for words in _WRONG)
        super().__init__(message, hint="check the network and how you sign in", retryable=not self.needs_person)


def split(name: str) -> tuple[str, str]:
    """`REMOTE:BRANCH`, or a branch of the repository itself, with no remote. No branch has a colon in its name."""
    remote, _, branch = name.rpartition(":")
    return remote, branch


def ref_of(name: str) -> str:
    """Where a repository keeps the branch that work lands on, or what it last saw of it."""
    remote, branch = split(name)
    return f"refs/remotes/{remote}/{branch}" if remote else f"refs/heads/{branch}"


class Remote:
    """A remote that the repository names. `address` is where it is read from."""

    def __init__(self, user: UserRepository, name: str) -> None:
        settings = user.settings()
        urls = [value for _, key, value in settings if key == f"remote.{name}.url"]
        if not urls:
            known = sorted(
                {key.split(".", 1)[1][:-4] for _, key, _ in settings if re.fullmatch(r"remote\..+\.url", key)}
            )
            hint = f"there are: {', '.join(known)}" if known else f"git remote add {name} URL"
            raise NotFound(f"{user.top} has no remote {name!r}", hint=hint)
        pushed = [value for _, key, value in settings if key == f"remote.{name}.pushurl"]
        self.user = user
        self.name = name
        self.address = _place(urls[-1], user.top)
        self.pushed = _place(pushed[-1] if pushed else urls[-1], user.top)


class RemoteBranch:
    """One branch of a remote, as seen and moved from a store of ours."""

    tries, seconds = TRIES, LONG

    def __init__(self, remote: Remote, branch: str, store: Store) -> None:
        if not REF.fullmatch(f"refs/heads/{branch}"):
            raise WorkspaceError(f"{branch!r} is not the name of a branch")
        self.remote = remote
        self.user = remote.user
        self.store = store
        self.branch = branch
        self.there = f"refs/heads/{branch}"
        self.here = f"refs/remotes/{remote.name}/{branch}"

    def tip(self) -> str:
        """Where the branch is now. The repository then has that commit too, and knows it as the remote's."""
        done = self._ask("ls-remote", "--exit-code", "--end-of-options", self.remote.address, self.there, fine=(2,))
        if done.code == 2:
            raise WorkspaceError(f"{self.remote.name} has no branch {self.branch}", hint="push it once")
        found = done.stdout.decode().split()[0]
        return found if self._known() == found else self._fetch()

    def _known(self) -> str:
        done = self.user.run("rev-parse", "--verify", "--quiet", f"{self.here}^{{commit}}", check=False)
        return done.stdout.decode().strip()

    def _fetch(self) -> str:
        ref = "refs/fetched/tip"
        self._ask("fetch", *_FETCH, "--end-of-options", self.remote.address, f"+{self.there}:{ref}")
        found = self.store.ref(ref)
        if found is None:
            raise WorkspaceError(f"{self.branch} of {self.remote.name} is not a commit")
        self._give(ref)
        self.user.run("update-ref", "-m", "treadle: fetch", self.here, found)
        return found

    def _give(self, ref: str) -> None:
        """Give the repository what a ref of the store has. git hashes each object."""
        refs = self.user.refs()
        heads = [
            at for name, at in refs.items() if name.startswith(("refs/heads/", f"refs/remotes/{self.remote.name}/"))
        ]
        without = [self._known(), *(at for at in heads if not at.startswith("ref: "))]
        without = list(dict.fromkeys(filter(None, without)))[:KNOWN_MAX]
        if self.store.git("rev-list", "-1", ref, *(f"^{at}" for at in without), lent=True).stdout.strip():
            with scratch.directory("bundle") as directory:
                path = os.path.join(directory, "fetched.bundle")
                write(path, self.store.bundle(ref, without=without))
                self.user.run("bundle", "unbundle", path, timeout=LONG)

    def move(self, old: str, new: str) -> None:
        """Push, if the branch is still at `old`. Raises BranchMoved when it is not, PushRefused when the other side
        does not let us, and RemoteAway when it could not be asked."""
        self.push(new, self.there, lease=old)

    def push(self, commit: str, ref: str, *, lease: str | None = None) -> None:
        """Push a commit of the store. With `lease`, only if the ref is there now; empty: only if there is none."""
        ours = f"refs/pushed/{commit}"
        self.store.set_ref(ours, commit)
        force = "--force" if lease is None else f"--force-with-lease={ref}:{lease}"
        words = ("push", *_PUSH, force, "--end-of-options", self.remote.pushed, f"{ours}:{ref}")
        for number in range(1, self.tries + 1):
            done = self._run(*words)
            why = _refusal(done)
            if done.code == 0:
                return
            if any(word in why for word in _STALE):
                raise BranchMoved(f"{ref} of {self.remote.name} is no longer at {(lease or '')[:12]}")
            if any(word in why for word in _BUSY) and number < self.tries:
                time.sleep(PAUSE * number)  # another push at the same moment, or a lock that stays
                continue
            if why and _BROKEN not in why:
                output = _hooks_output(done)
                branch = ref.removeprefix("refs/heads/")
                raise PushRefused(
                    f"{self.remote.name} refuses to move {branch}: {why}{f' ({output})' if output else ''}"
                )
            raise RemoteAway(f"{self.remote.name} could not be pushed to: {why or self._complaint(done)}")

    def delete(self, branch: str) -> None:
        """Remove a branch of ours there."""
        self._run("push", *_PUSH, "--end-of-options", self.remote.pushed, f":refs/heads/{branch}")

    # Running git...

    def _run(self, *words: str) -> Finished:
        given = {name: value for name in _INHERITED if (value := os.environ.get(name))}
        env = {**FETCHING, "SSH_ASKPASS_REQUIRE": "never", **_TRUSTED, **given}
        return self.store.git(*words, lent=True, env=env, check=False, timeout=self.seconds, persons=True)

    def _ask(self, *words: str, fine: tuple[int, ...] = ()) -> Finished:
        """Run a command that only reads, and once more when the other side cannot be reached."""
        for number in range(1, self.tries + 1):
            done = self._run(*words)
            if done.code in (0, *fine):
                return done
            if number < self.tries:
                time.sleep(PAUSE * number)
        raise RemoteAway(f"{self.remote.name} cannot be read: {self._complaint(done)}")

    def _complaint(self, done: Finished) -> str:
        """What git said, without a password that the address may have."""
        text = done.complaint or f"exit code {done.code}"
        for address in (self.remote.address, self.remote.pushed):
            text = text.replace(address, shown(address))
        return " ".join(text.split())[-600:]


def shown(address: str) -> str:
    """An address without the name and password in it."""
    parts = urlsplit(address)
    if "@" not in parts.netloc:
        return address
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _place(url: str, top: str) -> str:
    """A relative path in the settings is meant from the repository."""
    return url if re.match(r"[^/]+:", url) else os.path.join(top, url)


def _refusal(done: Finished) -> str:
    """Why the other side refused the ref, in its words; empty when the push did not get that far."""
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith("!\t"):
            return line.split("\t")[2].strip()
    return ""


def _hooks_output(done: Finished) -> str:
    """What the other side's hooks said."""
    lines = [line[len("remote:") :].strip() for line in done.complaint.splitlines() if line.startswith("remote:")]
    return " ".join(filter(None, lines))[:500]
