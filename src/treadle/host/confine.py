"""The sandbox of a run, around its sidecar and around its check, and the check of its result. An agent in this process
confines its own commands.
"""

import asyncio
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from treadle.drivers.confined import Enclosure, networked
from treadle.errors import ConfigError
from treadle.host.job import Job
from treadle.host.order import policy_of
from treadle.io.descriptors import remove_tree
from treadle.io.sandbox import limits, methods
from treadle.io.sandbox.places import Matches
from treadle.policy import patterns
from treadle.policy.network import parse_network, permitted
from treadle.receipts.trace import Check, Covers, Enforced, Walls, best_effort
from treadle.sandboxed.checks import run_check
from treadle.sandboxed.confining import Confining, settled
from treadle.session import Confinement, Limits, SessionSpec
from treadle.settings import config
from treadle.settings.trust import is_trusted
from treadle.verification.checking import Checking
from treadle.verification.finding import check_on_disk, project_check
from treadle.wire.sidecar.connection import PolicyProfile, WorkOrder
from treadle.workspace.workspace import Workspace


class Cage:
    """The sandbox for one run whose workspace exists; `close` removes what was made for the check.

    `source` is the directory that the workspace was made from; its settings apply. `objects` are the places of git
    objects that the workspace's git directory borrows from: they are shown inside, also where /tmp is another.
    `committed` are the files of the workspace whose content those objects have, `repository` is the source's git
    directory where the run does not need it. `seconds` is how long the run may take.
    """

    def __init__(
        self,
        asked: Confinement,
        order: WorkOrder,
        run_id: str,
        source: str,
        objects: Sequence[str] = (),
        *,
        committed: Iterable[str] = (),
        repository: str | None = None,
        seconds: float | None = None,
    ) -> None:
        asked = settled(asked, config.load(source, {**os.environ, **order.config.env}).settings)
        if methods.asked_for(asked, None) and methods.available().network and not best_effort(order):
            asked = narrowed(asked, order.policy)
        root = order.workspace.root
        hidden = _unreadable(order.policy, root, source, repository)
        self.asked = replace(asked, read_only=(*asked.read_only, *objects), hidden=(*asked.hidden, *hidden))
        self._shown_by_git = any(map(_denies_reading(order.policy, root), committed))
        limits = Limits(max_seconds=seconds)
        self._spec = SessionSpec.of(cwd=root, mode=None, confinement=self.asked, session_id=run_id, limits=limits)
        self._run = run_id
        self._policy = order.policy
        self._best_effort = best_effort(order)
        self._rules = policy_of(order.policy, root).path_rules
        self._check = Confining(root, (), self.asked, session=run_id)
        self._check.obey(self._rules, None)

    def enforced(self, *, guards: bool, ours: bool) -> dict[str, Enforced]:
        """For each list of the policy that is not empty, how it is enforced. `guards`: each act is asked about before
        it happens; `ours`: by a sidecar of ours, which does so for its agent or refuses the order.

        The kernel knows files and the network, but not tools.
        """
        lists = [name for name in PolicyProfile.__struct_fields__ if getattr(self._policy, name)]
        if guards or (ours and not self._best_effort):
            return dict.fromkeys(lists, "guard")
        by_kernel: set[str] = set()
        if self._check.wanted and methods.available().method == "bubblewrap" and not ours:
            by_kernel |= {"deny_write", *_network_lists(self.asked, self._policy)}
            by_kernel |= set() if self._shown_by_git else {"deny_read"}
        return {name: "kernel" if name in by_kernel else "observed" for name in lists}

    def stated(self, *, covers: Covers, reaches: Sequence[str] | None = None) -> Walls | None:
        """What the receipt says about the sandbox; None when there is none. `reaches`: the hosts of a program that is
        confined as a whole; None: as was asked for."""
        if not self._check.wanted:
            return None
        found = methods.available()
        hosts = self.asked.hosts
        network: Literal["on", "off", "off for commands"] = "off" if self.asked.network == "off" else "on"
        if covers == "commands" and self.asked.network == "auto" and self._check.is_limited:
            network = "off for commands"
        elif reaches is not None:
            network, hosts = "off", tuple(reaches)
        hidden = ["treadle's own state", *self._policy.deny_read]
        return Walls(
            method=str(found.method),
            covers=covers,
            network=network,
            hosts=hosts,
            hidden=tuple([*hidden, "/tmp and the sockets of the machine"] if found.method == "bubblewrap" else hidden),
            cannot=(*found.cannot, *limits.unlimited(self.asked.limits, namespace=found.method == "bubblewrap")),
        )

    def unenforced(self) -> list[str]:
        """What the sandbox does not enforce, for the record."""
        by_git = "files that deny_read names are committed, so git shows them also where they are hidden"
        return [
            *filter(None, [self._check.unenforced()]),
            *([by_git] if self._shown_by_git and self._check.wanted else []),
        ]

    def around(self, name: str, argv: Sequence[str], env: Mapping[str, str]) -> Enclosure | None:
        """The sandbox for a sidecar; None when none is wanted. Raises ConfigError when this machine cannot make one."""
        if not self._check.wanted:
            return None
        spec, warning = networked(self._spec, name, argv, env, ())
        made = Enclosure(spec, name, argv, env, ())
        made.warning = warning
        made.obey(self._rules, None)
        return made

    def around_check(self, root: str) -> Confining:
        """The sandbox for a check in a directory of its own; `close` it afterwards."""
        made = Confining(root, (), self.asked, session=f"{self._run}-{os.path.basename(root)}")
        made.obey(policy_of(self._policy, root).path_rules, None)
        return made

    def inside(self) -> Confinement | None:
        """For a program of ours that has to run where the agent worked; None when nothing there is confined."""
        return self._check.now()

    def options(self) -> list[str]:
        """Options for a sidecar of ours, which stays outside and confines what its agent starts."""
        if not self._check.wanted:
            return ["--no-sandbox"]
        reach = ",".join(self.asked.hosts) or self.asked.network
        return ["--sandbox", *(["--network", reach] if reach != "auto" else [])]

    def close(self) -> None:
        self._check.close()


def _denies_reading(policy: PolicyProfile, root: str) -> Callable[[str], bool]:
    wanted = policy_of(policy, root).path_rules.hidden_patterns()
    return lambda path: any(patterns.match(one, path) for one in wanted)


def _unreadable(policy: PolicyProfile, root: str, source: str, repository: str | None) -> list[str]:
    """What `deny_read` names, where the workspace was made from; and the git directory there, which has it too."""
    source = os.path.realpath(source)
    if not policy.deny_read or os.path.realpath(root) == source:
        return []
    found = Matches([source], _denies_reading(policy, source)).find()
    return [*found, *([repository] if repository is not None else [])]


def narrowed(asked: Confinement, policy: PolicyProfile) -> Confinement:
    """With the network that the policy leaves: none, or the hosts that it allows. As it was where the sandbox cannot
    do what the policy says, such as deny one host and allow all others."""
    if _everywhere(policy.deny_network):
        return replace(asked, network="off", hosts=())
    if _everywhere(policy.allow_network) and asked.network == "auto":
        return replace(asked, network="on")
    if not policy.allow_network or _everywhere(policy.allow_network):
        return asked
    try:
        _, hosts = parse_network(",".join(map(_host, policy.allow_network)))
    except ConfigError:
        return asked
    if asked.network == "off":
        hosts = tuple(one for one in asked.hosts if one in hosts or ("*" not in one and permitted(hosts, *_port(one))))
    return replace(asked, network="off", hosts=hosts)


def _network_lists(asked: Confinement, policy: PolicyProfile) -> set[str]:
    """The lists about the network that this sandbox keeps."""
    if asked.network != "off":
        return set()
    if not asked.hosts:
        return {"deny_network", "allow_network"}
    return {"allow_network"} if narrowed(asked, policy).hosts == asked.hosts and policy.allow_network else set()


def _everywhere(hosts: Sequence[str]) -> bool:
    return "*" in map(_host, hosts)


def _host(pattern: str) -> str:
    return pattern.removeprefix("domain:").lower()


def _port(host: str) -> tuple[str, int]:
    name, _, port = host.partition(":")
    return name, int(port or 443)


# The check sees the tree that the receipt states, not the directory that the agent left: no cache, ignored file or
# git setting of the run can make it pass. Each check has a directory and a /tmp of its own, which go when it ends. It
# has the network of a command, for it runs what the agent wrote; the setup, which is there to download, has the
# machine's.


async def verify(job: Job, workspace: Workspace, cage: Cage | None, directory: str, *, blame: bool = False) -> Check:
    """Check what the run changed of its base, by the judge of the base (`verification`). Every time that the command
    runs, it has a directory of its own, with a name that begins with `directory`."""
    assert job.check is not None
    numbers = itertools.count(1)

    async def run(tree: str) -> Check:
        return await _check_tree(job, workspace, cage, f"{directory}-{next(numbers)}", tree)

    checking = Checking(
        workspace.store, job.check, run, inside=workspace.inside, may_change=job.may_change, blame=blame
    )
    result = await asyncio.to_thread(workspace.result_tree)
    base = await asyncio.to_thread(workspace.base_tree)
    verified = await checking.verify(base, result)
    return verified.main.proving(verified.evidence)


def found_check(workspace: Workspace) -> tuple[str, str]:
    """The check and the set-up of the project, as it was before the run. Blocks."""
    files, inside = workspace.store.files(workspace.base_tree()), workspace.inside

    def text(name: str) -> str | None:
        entry = files.get(f"{inside}{name}")
        return workspace.store.blobs([entry.blob])[entry.blob].decode(errors="replace") if entry is not None else None

    return project_check([path.removeprefix(inside) for path in files if path.startswith(inside)], text)


def trusted_setup(workspace: Workspace) -> str:
    """The set-up of a project that the person trusts, asked before the agent starts: it has the machine's network. What
    is trusted is on the disk: the base may name another. Blocks."""
    source = workspace.place.source
    setup = check_on_disk(source)[1] if is_trusted(source) else ""
    return setup if setup and found_check(workspace)[1] == setup else ""


async def _check_tree(job: Job, workspace: Workspace, cage: Cage | None, directory: str, tree: str) -> Check:
    """Run the job's setup and check on a tree in `directory`, which is made for it and removed afterwards."""
    assert job.check is not None
    confining = None
    try:
        here = await asyncio.to_thread(workspace.write_result, directory, job.bring, tree)
        confining = cage.around_check(here) if cage is not None else None
        for command in filter(None, (job.setup, job.check)):
            walls = None
            if confining is not None:
                walls = confining.for_command() if command == job.check else confining.now()
            done = await run_check(command, here, confinement=walls)
            if not done.ok:
                break
        return replace(done, setup=job.setup or "")
    finally:
        if confining is not None:
            confining.close()
        await asyncio.to_thread(remove_tree, directory)
