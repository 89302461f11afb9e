"""Checks what turns changed in a person's own checkout, by the project's check and the judge of before.

check = TurnCheck(cwd)
await check.begin()                                  # before a turn: what is there now
...
ending = await check.ending(text, denials)           # verified, unverified or contradicted, and why
check.close()
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from treadle.errors import ConfigError, NotFound, TreadleError
from treadle.io.tasks import within
from treadle.sessions.totals import TurnSummary

if TYPE_CHECKING:  # a turn in a directory without a check needs none of it
    from treadle.receipts.trace import Check
    from treadle.verification.ending import CheckedEnding
    from treadle.verification.judge import FileRole
    from treadle.workspace.store import Store
    from treadle.workspace.workspace import Workspace

LOOK_SECONDS = 30.0
"""How long a look at a checkout may take, which every turn waits for."""
SILENT_SECONDS = 2.0
"""What takes longer is said."""


def top_of(cwd: str) -> str | None:
    """The top of the checkout around a directory; None if there is none."""
    place = os.path.realpath(cwd)
    while not os.path.lexists(os.path.join(place, ".git")):
        if place == os.path.dirname(place):
            return None
        place = os.path.dirname(place)
    return place


class TurnCheck:
    """`command`: the person's check, in place of the project's. `off`: why nothing is to be checked. `note` is told
    when the check begins, and when the look before a turn takes long."""

    def __init__(
        self, cwd: str, command: str = "", *, off: str = "", note: Callable[[str], None] | None = None
    ) -> None:
        self._note = note or (lambda text: None)
        self._cwd = cwd
        self._given = command
        self._off = off
        self._setup = ""
        self._untrusted: tuple[str, ...] = ()
        self._missing = "no turn was run"
        """Why nothing can be checked here."""
        self._place: str | None = None
        self._workspace: Workspace | None = None
        self._acted = False
        self.command = command

    @property
    def ready(self) -> bool:
        """Whether there is something to check, and a command for it."""
        return self._workspace is not None

    async def begin(self, *, anew: bool = True) -> None:
        """A turn begins: keep what is there now. Without `anew`, what an earlier turn began with stays the base."""
        if self._off or (self._workspace is not None and not anew):
            return
        self.close()
        self._missing = "the look at the files here was interrupted"
        what = f"looking at the files here, so that what the turn changes can be checked ({LOOK_SECONDS:g} s at most)"
        saying = asyncio.get_running_loop().call_later(SILENT_SECONDS, self._note, what)
        try:
            async with within(LOOK_SECONDS):
                self._missing = await self._look()
        except TimeoutError:  # the next look would take as long
            self._off = f"to look at all files here takes more than {LOOK_SECONDS:g} s"
        except Exception as error:  # a project's files can hold anything, and no turn fails by them
            self._missing = f"what changed here cannot be told: {_message(error)}"
        finally:
            saying.cancel()

    async def _look(self) -> str:
        """Returns why it was not possible."""
        if (top := top_of(self._cwd)) is None:
            return "this directory is in no git repository, so what changed is not known"
        from treadle.verification.finding import NONE, check_on_disk

        found, self._setup = await asyncio.to_thread(check_on_disk, top)
        self.command = self._given or found
        if self.command in ("", NONE):
            return "no check is known for this project: `check` under [verify] in .treadle/config.toml"
        import threading

        from treadle.io import scratch
        from treadle.io.tasks import heeding
        from treadle.settings import trust
        from treadle.workspace.workspace import look_at

        # Asked now: what the turn changes does not make it trusted.
        self._untrusted = () if trust.is_trusted(top) else _named(found, self._setup, self._given)
        self._place = scratch.make("turn")
        halt = threading.Event()
        try:
            with heeding(halt):
                self._workspace = await asyncio.to_thread(look_at, top, os.path.join(self._place, "before"))
        finally:
            halt.set()
        return ""

    async def ending(self, turn: TurnSummary, *, asked: bool = False) -> CheckedEnding:
        """What is known about a turn that ended. `asked`: a person wants the check, whatever the turn did."""
        from treadle.verification.ending import NOTHING, CheckedEnding, claims_success

        self._acted |= asked or bool(turn.files) or any(each.started.kind != "read" for each in turn.tools)
        denied = tuple(dict.fromkeys(each.reason for each in turn.denials))
        made = CheckedEnding(state="unverified", why=self._off or self._missing, check=self.command, denied=denied)
        claims = claims_success(turn.text)
        if self._workspace is None:
            return made if claims or turn.files else replace(made, why=f"{NOTHING}{made.why}")
        try:
            return await self._checked(self._workspace, made, claims)
        except Exception as error:
            return replace(made, why=f"the check could not be run: {_message(error)}")

    async def _checked(self, workspace: Workspace, made: CheckedEnding, claims: bool) -> CheckedEnding:
        from treadle.sandboxed.checks import verified_check
        from treadle.verification.ending import NOTHING, ending_of

        work = await asyncio.to_thread(lambda: workspace.difference().whole)
        base = workspace.base_tree()
        if work == base and not claims:
            return replace(made, why=f"{NOTHING}no file was changed")
        if not self._acted and not claims:  # nothing is started for what another program wrote meanwhile
            return replace(made, why="files changed meanwhile, and the turn reported nothing that changes files")
        self._note(f"checking with `{self.command}`")
        done = await verified_check(
            workspace.store,
            base,
            work,
            self.command,
            lambda directory, tree: workspace.write_result(directory, None, tree),
            setup=self._setup,
            shown=self._shown(workspace),
            blame=True,
            untrusted=self._untrusted,
        )
        assert done.evidence
        return ending_of(self.command, done.evidence, changed=work != base, claims=claims, denied=made.denied)

    def _shown(self, workspace: Workspace) -> list[str]:
        user = workspace.place.repository()
        return user.object_places() if user is not None else []

    def close(self) -> None:
        """Remove what was kept of the beginning."""
        if self._place is not None:
            from treadle.io import scratch

            scratch.remove(self._place)
        self._place = self._workspace = None


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, TreadleError | OSError) else f"{type(error).__name__}: {error}"


def _named(found: str, setup: str, given: str) -> tuple[str, ...]:
    """Of the commands of a check, those that the project names."""
    return (setup,) if given else (setup, found)


class Checkout:
    """What a person's checkout changes of a commit. `command`: in place of the project's, as that commit has it."""

    def __init__(self, top: str, base: str, command: str, may_change: Sequence[str]) -> None:
        self._top, self._base, self._given = top, base, command
        self._may_change = may_change

    def role(self, path: str) -> FileRole:
        """What a file counts as."""
        from treadle.io import scratch
        from treadle.verification.judge import judge_for
        from treadle.workspace.store import Store, lending
        from treadle.workspace.user_repository import UserRepository

        with scratch.directory("turn") as directory:
            user = UserRepository.around(self._top)
            store = Store.make(os.path.join(directory, "store"), **lending(user))
            tree, command, *_ = self._begun(store)
            return judge_for(store, tree, command, may_change=self._may_change).of(path)

    async def verify(self) -> tuple[Check, str]:
        """The check with its evidence, and what differs."""
        from treadle.io import scratch
        from treadle.sandboxed.checks import verified_check
        from treadle.workspace.workspace import look_at

        with scratch.directory("turn") as directory:
            workspace = await asyncio.to_thread(look_at, self._top, os.path.join(directory, "now"))
            store, work = workspace.store, workspace.place.start_tree
            base, command, setup, untrusted = await asyncio.to_thread(self._begun, store)
            user = workspace.place.repository()
            done = await verified_check(
                store,
                base,
                work,
                command,
                lambda place, tree: workspace.write_result(place, None, tree),
                setup=setup,
                shown=user.object_places() if user is not None else (),
                may_change=self._may_change,
                blame=True,
                prove=True,
                plants=True,
                untrusted=untrusted,
            )
            assert done.evidence
            store.deltas(base, work)  # brings in what the difference needs of the repository's own objects
            return done, store.patch(base, work).decode("utf-8", "replace")

    def _begun(self, store: Store) -> tuple[str, str, str, tuple[str, ...]]:
        """The tree of the commit, the check, its set-up, and which of these are not trusted. Blocks."""
        from treadle.settings import trust
        from treadle.verification.finding import NONE, check_on_disk, project_check
        from treadle.workspace.user_repository import UserRepository

        user = UserRepository.around(self._top)
        assert user is not None
        given = f"{self._base}^{{commit}}"
        done = user.run("rev-parse", "--verify", "--quiet", "--end-of-options", given, check=False)
        if done.code != 0:
            raise NotFound(f"there is no commit {self._base!r} here")
        tree, files = store.borrow_tree(done.stdout.decode().strip())

        def text(path: str) -> str | None:
            entry = files.get(path)
            return store.blobs([entry.blob])[entry.blob].decode(errors="replace") if entry is not None else None

        found, setup = project_check(files, text)
        command = self._given or found
        if command in ("", NONE):
            raise ConfigError("no check is known for this project", hint="name it: --check 'make test'")
        # What is trusted is on the disk: another commit may name other commands.
        trusted = trust.is_trusted(self._top) and (found, setup) == check_on_disk(self._top)
        return tree, command, setup, () if trusted else _named(found, setup, self._given)
