"""The bubblewrap command line for a Confinement, and the network that commands of one session share.

The order of the options is the order of the mounts, so a later one covers an earlier one: first the whole machine
read-only, then the private places, the home directory, Treadle's own hidden files, what may be written, and what may
not inside that.
"""

import os
import stat
from collections.abc import Callable, Sequence
from typing import NamedTuple

from treadle.confinement import Confinement
from treadle.errors import LocalError
from treadle.io.paths import state_dir
from treadle.io.process.programs import find_outside
from treadle.io.sandbox import parted, places
from treadle.io.sandbox.places import Home

# One network for the commands of a session that have none of the machine's: they reach each other's ports.
#
# The first of them makes it, and each that starts while one of them runs joins it. Sandboxes with the same private
# /tmp are those of one session.

_running: dict[str, list["SharedNetwork"]] = {}


class SharedNetwork(NamedTuple):
    """The network of a program that is running."""

    path: str
    """What stands for it in /proc, while the program runs."""
    namespace: str

    def is_there(self) -> bool:
        try:
            return os.readlink(self.path) == self.namespace
        except OSError:
            return False


def shared(confinement: Confinement) -> SharedNetwork | None:
    """The network that a program of this confinement should join; None when it makes its own."""
    if confinement.network != "off" or confinement.temp is None:
        return None
    return next((one for one in _running.get(confinement.temp, ()) if one.is_there()), None)


def running(confinement: Confinement, first: int) -> Callable[[], None]:
    """Let others join the network of this process, until what is returned is called."""
    temp, path = confinement.temp, f"/proc/{first}/ns/net"
    if confinement.network != "off" or temp is None:
        return lambda: None
    made = SharedNetwork(path, os.readlink(path))
    _running.setdefault(temp, []).append(made)

    def ended() -> None:
        left = [one for one in _running.get(temp, ()) if one is not made]
        if left:
            _running[temp] = left
        else:
            _running.pop(temp, None)

    return ended


GO, READY, FILTER = 3, 4, 5
"""The program's extra descriptors: it reads the signal to start, reports that it is ready, reads the seccomp filter."""
INIT = "printf r >&4; IFS= read -r go <&3 || exit 125; exec 3<&- 4>&-; "
RUN = '"$@"; code=$?; '
RESET = "/usr/bin/env --default-signal=INT,QUIT"
HAND_OVER = (
    "if {reset} true 2>/dev/null; then "
    '{reset} /bin/sh -c \'exec "$@"\' treadle-init "$@" <&{i} >&{o} {i}<&- {o}>&- & exec {i}<&- {o}>&-; wait $!; '
    'else "$@" <&{i} >&{o} {i}<&- {o}>&-; fi; code=$?; '
)
"""Runs the command as a background job that alone holds its input and output, so that closing one is seen at once.

A shell's background job ignores SIGINT and SIGQUIT. Where `env` cannot undo that, it runs in the foreground and the
shell keeps both open.
"""
LINGER = (
    "n=0; while set -- /proc/[0-9]*; [ $# -gt 1 ] && [ $n -lt 6 ]; do sleep 0.05; n=$((n+1)); done; "
    'if [ $# -gt 1 ]; then left=; for p do [ "$p" = /proc/1 ] || { IFS= read -r c <"$p/comm" && left="$left, $c"; }; '
    'done 2>/dev/null; [ -z "$left" ] || printf "\\n[stopped what the command left running: %s; '
    'use background to keep it]\\n" "${left#, }"; fi; '
)
"""Gives background writers, as in `cmd > >(tee log)`, a moment, and names what has to be stopped."""
KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


def find(*workspaces: str) -> str | None:
    return find_outside("bwrap", *workspaces)


class Mounts:
    """Which parts of the machine are visible, and how. Each path is real, without links."""

    def __init__(self, confinement: Confinement, *, divided: bool = True, network: SharedNetwork | None = None) -> None:
        """`divided`: Unix sockets and FIFOs outside are kept apart from those that programs make inside. `network`: to
        join instead of one of its own."""
        self.write = places.writable(confinement.write)
        self.home = Home(confinement.home if divided else None, confinement.readable, self.write)
        self.shown = list(confinement.mounts)
        covered = [shown.target for shown in self.shown]
        pins = _pins(self.write, _with_real_paths(confinement))
        self.pins = [place for place in pins if place not in self.write and not places.is_under(place, *covered)]
        self.read_only = [*dict.fromkeys(_protected(confinement.read_only, self.write))]
        self.hidden = self._masks(confinement, parted.left_inside(self.write) if divided else [], covered)
        self.keeps_capability = places.needs_override(self.write)
        """If so, no user namespace is made: inside one, the capability would not apply to other users' files."""
        shown = [*(place for place in places.running() if _is_private(place)), *self.read_only]
        self.network = network if divided else None
        self.view = (
            parted.MachineView(
                self.outside(shown),
                layers=self.home.layers,
                scope=confinement.network != "off",
                network=self.network.path if self.network is not None else "",
            )
            if divided
            else None
        )

    def outside(self, places_: list[str] | None = None) -> list[str]:
        """Those of the places, or of what is shown read-only, that are not in what may be written."""
        given = self.read_only if places_ is None else places_
        return [place for place in given if not places.is_under(place, *self.write)]

    def source(self, place: str) -> str:
        """Where to take a place that is only read from."""
        if self.view is None:
            return os.path.realpath(place)
        found = self.view.source(place)
        if found == place and places.is_under(place, *self.home.emptied) and not places.is_under(place, *self.write):
            return self.view.in_root(os.path.realpath(place))
        return found

    def is_gone(self, place: str) -> bool:
        """Whether something else is shown instead of it."""
        return places.is_under(place, *places.PRIVATE, *self.home.emptied)

    def inside(self, places_: list[str]) -> list[str]:
        """Those of the places that a confined program could have moved while the sandbox was being made."""
        return [place for place in places_ if places.is_under(place, *self.write)]

    def vanished(self) -> bool:
        """Whether a place to hide, such as a socket, is gone: bubblewrap fails on it, and looking again helps."""
        return not all(map(os.path.exists, self.hidden))

    def _masks(self, confinement: Confinement, found: list[str], covered: list[str]) -> list[str]:
        """`found`: what else is to be hidden, unless it is below something `covered`, where another place is shown."""
        real = [os.path.realpath(place) for place in confinement.hidden if os.path.exists(place)]
        shown = [*self.write, *confinement.read_only, *places.running(), *self.home.programs, *self.home.layers]
        hidden = [place for place in real if not self.is_gone(place) or places.is_under(place, *shown)]
        hidden += [one for one in found if not places.is_under(one, *covered) and one not in confinement.sockets]
        masks: list[str] = []
        for place in sorted(set(hidden), key=lambda path: (path.count("/"), path)):
            emptied = places.is_under(place, *places.ours()) and not places.is_under(place, *self.write)
            if not emptied and not places.is_under(place, *masks):
                masks.append(place)
        return masks


def command(
    program: str,
    confinement: Confinement,
    cwd: str,
    *,
    filtered: bool,
    passages: Sequence[tuple[str, str]] = (),
    mounts: Mounts,
) -> list[str]:
    """Everything up to the program to run. `passages`: sockets of ours, each with its path inside."""
    through = [word for passage in passages for word in ("--bind", *passage)]
    alone = confinement.network == "off" and mounts.network is None
    namespaces = _namespaces(mounts.keeps_capability, filtered, alone=alone)
    options = _safely([*_options(confinement, mounts), *through], confinement, mounts)
    return [program, *namespaces, *options, "--chdir", cwd, "--"]


def _safely(options: list[str], confinement: Confinement, plan: Mounts) -> list[str]:
    """The options with the session's own directories taken from the view, which makes the mount points in them:
    bubblewrap would follow a link that a program has left there."""
    targets = {options[at + 2]: options[at + 1] for at, word in enumerate(options) if word in ("--bind", "--ro-bind")}
    targets |= {options[at + 1]: "/" for at, word in enumerate(options) if word in ("--tmpfs", "--dir")}
    for own in filter(None, (confinement.temp, plan.home.own)):
        top = next((target for target, source in targets.items() if source == own), None)
        if top is None:
            continue
        inside = [one for one in targets if places.is_under(one, top) and one != top]
        inside = [one for one in inside if not any(places.is_under(one, other) for other in inside if other != one)]
        if plan.view is None:
            _refuse_links(own, [os.path.relpath(one, top) for one in inside])
            continue
        points = [(os.path.relpath(one, top), _is_file(targets[one], one, plan.view)) for one in inside]
        options[options.index(own)] = plan.view.own(own, points)
    return options


def _refuse_links(own: str, points: list[str]) -> None:
    """Where there are no views: a link that is there now. One that a program makes in this moment is not seen."""
    for path in points:
        names = path.split("/")
        for depth in range(1, len(names) + 1):
            if os.path.islink(place := os.path.join(own, *names[:depth])):
                raise LocalError(f"the sandbox cannot be created: a command has put a link at {place}")


def _is_file(source: str, target: str, view: parted.MachineView) -> bool:
    """Whether a file is mounted there. What the view shows is not there yet."""
    real = os.path.realpath(target) if places.is_under(source, view.place) else source
    return not os.path.isdir(real)


def init(argv: list[str], *, linger: bool, aside: int | None = None) -> list[str]:
    """The first process inside: it waits for our signal and runs the command. When it ends, everything inside ends.

    `aside`: the command's input has this number and its output the next, so that only the command holds them.
    """
    run = RUN if aside is None else HAND_OVER.format(reset=RESET, i=aside, o=aside + 1)
    return ["/bin/sh", "-c", INIT + run + (LINGER if linger else "") + "exit $code", "treadle-init", *argv]


def environment(env: dict[str, str], confinement: Confinement) -> dict[str, str]:
    if confinement.home is not None:  # what that names was copied, but for secrets
        env.pop("GIT_CONFIG_GLOBAL", None)
    return {**env, "TMPDIR": "/tmp", "XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"}


def _namespaces(keeps_capability: bool, filtered: bool, *, alone: bool) -> list[str]:
    """`alone`: with a network of its own, in which there is nothing else."""
    # No cgroup namespace: nothing in cgroups can be written anyway, and in one the JVM does not start on cgroup v1.
    options = ["--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    if not keeps_capability:
        options.append("--unshare-user")
    if alone:
        options.append("--unshare-net")
    options += ["--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"]
    if keeps_capability:
        options += ["--cap-add", "CAP_DAC_OVERRIDE"]
    return [*options, "--seccomp", str(FILTER)] if filtered else options


def _options(confinement: Confinement, plan: Mounts) -> list[str]:
    write = plan.write
    whole = (
        ["--ro-bind", "/", "/"]
        if plan.view is None
        else ["--ro-bind", plan.view.root, "/", "--ro-bind", "/sys", "/sys"]
    )
    mounts = [*whole, "--dev", "/dev", "--proc", "/proc"]
    for place in KERNEL if os.geteuid() == 0 else ():  # for other users the kernel's file permissions refuse them
        if os.path.exists(place):
            mounts += ["--ro-bind", place, place]
    mounts += ["--bind", confinement.temp, "/tmp"] if confinement.temp else ["--perms", "1777", "--tmpfs", "/tmp"]
    mounts += ["--perms", "1777", "--tmpfs", "/var/tmp", "--tmpfs", "/run"]
    mounts += ["--perms", "0700", "--dir", f"/run/user/{os.geteuid()}"]
    mounts += [*_resolver(), *_home(plan)]
    for place in places.running():
        if plan.is_gone(place) and not places.is_under(place, *plan.home.programs):
            mounts += ["--ro-bind", plan.source(place), place]
    private = [*map(os.path.realpath, places.ours()), *places.other_homes(write[0] if write else "/")]
    within = [*private, *write]  # what is shown around these must not cover them
    around = [place for place in plan.outside() if any(places.is_under(one, place) and one != place for one in within)]
    for place in around:
        mounts += ["--ro-bind", plan.source(place), place]
    for place in private:
        gone = plan.is_gone(place) and not places.is_under(place, *around, *places.running())
        ours = confinement.state is not None and place == os.path.realpath(state_dir())
        if (ours or not gone) and not places.is_under(place, *write):
            mounts += _replaced(place, confinement)
    for place in write:
        mounts += ["--bind", place, place]
    for place in private:
        if any(places.is_under(place, one) and not places.is_under(one, place) for one in write):
            mounts += _replaced(place, confinement)
    for place in plan.pins:
        mounts += ["--bind", place, place]
    for shown in plan.shown:
        mounts += ["--bind" if shown.write else "--ro-bind", shown.source, shown.target]
    for place in plan.read_only:
        if place not in around:
            mounts += ["--ro-bind", plan.source(place), place]
    for place in plan.hidden:
        mounts += _mask(place)
    return mounts


def _home(plan: Mounts) -> list[str]:
    home, mounts = plan.home, []
    for place in home.emptied:
        own = home.own if place == home.first else None
        mounts += ["--bind", own, place] if own is not None else ["--perms", "0700", "--tmpfs", place]
    for place in home.programs:
        mounts += ["--ro-bind", plan.source(place), place]
    for place in home.layers:
        mounts += ["--bind", plan.source(place), place]
    return mounts


def _is_private(place: str) -> bool:
    return places.is_under(place, *places.PRIVATE)


def _resolver() -> list[str]:
    """The file in which /etc configures name lookup, which on many machines is a link into /run."""
    real = os.path.realpath("/etc/resolv.conf")
    return ["--ro-bind", real, real] if _is_private(real) and os.path.isfile(real) else []


def _with_real_paths(confinement: Confinement) -> list[str]:
    """The protected or hidden paths, as named and as resolved."""
    named = (*confinement.read_only, *confinement.hidden, *(shown.target for shown in confinement.mounts))
    return [*dict.fromkeys((*named, *map(os.path.realpath, named)))]


def _protected(read_only: tuple[str, ...], write: list[str]) -> list[str]:
    """The real paths to protect: bubblewrap refuses a link, but programs follow it.

    A link to a place that cannot be written needs no protection. Whether the link itself was changed is checked
    afterwards, as for names that do not exist.
    """
    found = []
    for path in read_only:
        real = os.path.realpath(path)
        if os.path.exists(real) and (real == path or places.is_under(real, *write)):
            found.append(real)
    return found


def _pins(write: list[str], protected: list[str]) -> list[str]:
    """The directories between a writable place and something protected in it: a mount point cannot be renamed away."""
    found = set()
    for path in protected:
        for base in write:
            parent = os.path.dirname(path)
            while places.is_under(parent, base) and parent != base:
                if os.path.isdir(parent) and os.path.realpath(parent) == parent:
                    found.add(parent)
                parent = os.path.dirname(parent)
    return sorted(found, key=lambda path: (path.count("/"), path))


def _mask(path: str) -> list[str]:
    return ["--perms", "0000", "--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]


def _replaced(path: str, confinement: Confinement) -> list[str]:
    """Shown as empty, not as forbidden, because a workspace may lie below it; our state as the given one."""
    if confinement.state is not None and path == os.path.realpath(state_dir()):
        return ["--bind", confinement.state, path]
    return ["--tmpfs", path] if stat.S_ISDIR(os.stat(path).st_mode) else ["--ro-bind", "/dev/null", path]
