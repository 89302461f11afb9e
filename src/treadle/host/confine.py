"""The sandbox of a run, around its sidecar and around the check. An agent in this process confines its own commands."""

import os
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from treadle.agent.confining import Confining, settled
from treadle.drivers.confined import Enclosure
from treadle.host.check import run_check
from treadle.host.supervise import policy_of
from treadle.io.sandbox import methods
from treadle.receipts.trace import Check
from treadle.session import Confinement, SessionSpec
from treadle.settings import config
from treadle.wire.sidecar.connection import PolicyProfile, WorkOrder


class Cage:
    """The sandbox for one run whose workspace exists; `close` removes what was made for the check.

    `source` is the directory that the workspace was made from; its settings apply. `objects` are the places of git
    objects that the workspace's git directory borrows from: they are shown inside, also where /tmp is another.
    """

    def __init__(
        self, asked: Confinement, order: WorkOrder, run_id: str, source: str, objects: Sequence[str] = ()
    ) -> None:
        asked = settled(asked, config.load(source, {**os.environ, **order.config.env}).settings)
        self.asked = replace(asked, read_only=(*asked.read_only, *objects))
        root = order.workspace.root
        self._spec = SessionSpec.of(cwd=root, mode=None, confinement=self.asked, session_id=run_id)
        self._run = run_id
        self._policy = order.policy
        self._rules = policy_of(order.policy, root).path_rules
        self._check = Confining(root, (), self.asked, session=run_id)
        self._check.obey(self._rules, None)

    @property
    def keeps_policy(self) -> bool:
        """Whether the kernel enforces the whole policy: it knows files, but not tools and hosts."""
        lists = {name for name in PolicyProfile.__struct_fields__ if getattr(self._policy, name)}
        if not lists or lists - {"deny_read", "deny_write"}:
            return False
        return self._check.wanted and methods.available().method == "bubblewrap"

    def unkept(self) -> str:
        """What the sandbox does not enforce on this machine, for the record; empty when it enforces everything."""
        return self._check.unkept()

    def around(self, name: str, argv: Sequence[str], env: Mapping[str, str]) -> Enclosure | None:
        """The sandbox for a sidecar; None when none is wanted. Raises ConfigError when this machine cannot make one."""
        if not self._check.wanted:
            return None
        made = Enclosure(self._spec, name, argv, env, ())
        made.obey(self._rules, None)
        return made

    def around_check(self, root: str) -> Confining:
        """The sandbox for a check in a directory of its own; `close` it afterwards."""
        made = Confining(root, (), self.asked, session=f"{self._run}-check")
        made.obey(policy_of(self._policy, root).path_rules, None)
        return made

    def inside(self) -> Confinement | None:
        """For a program of ours that has to run where the agent worked; None when nothing there is confined."""
        return self._check.now()

    @property
    def method(self) -> str | None:
        """What confines the run; None when nothing does."""
        return methods.available().method if self._check.wanted else None

    def options(self) -> list[str]:
        """Options for a sidecar of ours, which stays outside and confines what its agent starts."""
        if self.asked.use == "off":
            return ["--no-sandbox"]
        reach = ",".join(self.asked.hosts) or self.asked.network
        return [*(["--sandbox"] if self.asked.use == "on" else []), *(["--network", reach] if reach != "on" else [])]

    def close(self) -> None:
        self._check.close()


async def confined_check(command: str, cwd: str, *, shown: Sequence[str] = ()) -> Check:
    """Run a check outside of any run, in a sandbox where possible: what it runs was written by agents.

    It can read the directories `shown` wherever they are, also in /tmp, which is private otherwise.
    """
    asked = settled(Confinement(use="possible", read_only=tuple(shown)), config.load(cwd).settings)
    confining = Confining(cwd, (), asked, session="check")
    try:
        return await run_check(command, cwd, confinement=confining.now())
    finally:
        confining.close()
