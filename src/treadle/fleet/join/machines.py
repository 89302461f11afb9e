"""`treadle fleet add ssh://HOST`: makes another machine a worker over SSH.

The machine is inspected, gets the program if it lacks this version, joins with a code that is used at once, and its
node is started. Where the engine listens on loopback only, this machine's node keeps a tunnel to it open.
"""

import os
import shlex
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from treadle import __version__
from treadle.errors import ConfigError, LocalError
from treadle.fleet.engine import places
from treadle.fleet.join import bringing, invitations
from treadle.io.files import write_atomic
from treadle.io.process.programs import command_words, run_program
from treadle.io.reading import read_if_there

Progress = Callable[[str], None]
LOOK = f"""
export PATH="$HOME/{bringing.PLACE}/bin:$PATH"
echo "host $(uname -n)"
echo "kind $(python3 -c {shlex.quote(bringing.KIND)} 2>/dev/null)"
echo "python $(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)"
echo "treadle $(command -v treadle >/dev/null 2>&1 && treadle --version 2>/dev/null)"
"""
FORWARD_PORT = 42220


class Tunnel(msgspec.Struct, frozen=True, kw_only=True):
    """A port on that machine that leads to the engine here."""

    name: str
    argv: tuple[str, ...]


class Machine:
    """A machine that is reached over SSH."""

    def __init__(self, url: str, ssh: str = "ssh") -> None:
        found = urlsplit(url if "://" in url else f"ssh://{url}")
        if found.scheme != "ssh" or not found.hostname:
            raise ConfigError(f"{url!r} names no machine", hint="treadle fleet add ssh://USER@HOST[:PORT]")
        self.where = f"{found.username}@{found.hostname}" if found.username else found.hostname
        options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=15"]
        self._ssh = [*command_words(ssh), *options, *(["-p", str(found.port)] if found.port else [])]

    def run(self, script: str, *, stdin: bytes = b"", timeout: float = 120.0) -> str:
        """Run a shell script there and return its output. Its data comes over its input, never on a command line."""
        done = run_program([*self._ssh, self.where, f"sh -c {shlex.quote(script)}"], stdin=stdin, timeout=timeout)
        if done.code == 255:
            raise LocalError(f"ssh cannot reach {self.where}: {done.complaint}", hint="try `ssh HOST true` by hand")
        if done.code:
            raise LocalError(f"on {self.where}: {done.complaint or f'exit code {done.code}'}")
        return done.stdout.decode("utf-8", "replace")

    def look(self) -> dict[str, str]:
        lines = (line.partition(" ") for line in self.run(LOOK).splitlines())
        return {word: rest.strip() for word, _, rest in lines}

    def tunnel(self, name: str, port: int, to: int) -> Tunnel:
        alive = ["-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
        return Tunnel(name=name, argv=(*self._ssh, *alive, "-N", "-R", f"127.0.0.1:{port}:127.0.0.1:{to}", self.where))


def add(
    url: str,
    *,
    name: str = "",
    slots: int = 4,
    labels: tuple[str, ...] = (),
    ssh: str = "ssh",
    port: int = FORWARD_PORT,
    may: str = "watch",
    say: Progress = lambda text: None,
) -> str:
    """Make that machine a worker of this fleet. Returns the node's name. Blocks."""
    fleet = places.load()
    machine = Machine(url, ssh)
    seen = machine.look()
    name = name or seen.get("host", "").partition(".")[0]
    say(f"reached {machine.where}: {seen.get('host') or 'no name'}, Python {seen.get('python') or 'none'}")
    if seen.get("treadle", "").split()[-1:] == [__version__]:
        say(f"program treadle {__version__} is there")
    else:
        _bring(machine, seen, say)
    address = fleet.url
    if fleet.private and urlsplit(fleet.url).hostname in ("127.0.0.1", "localhost"):
        address = f"nats://127.0.0.1:{port}"
        _keep_tunnel(machine.tunnel(name, port, urlsplit(fleet.url).port or 4222))
        say(f"tunnel  {machine.where} port {port} leads to the engine here")
    words = ["--service", "--patience=60", "--slots", str(slots), *(f"--label={label}" for label in labels)]
    script = f'PATH="$HOME/{bringing.PLACE}/bin:$PATH"; treadle fleet join - {shlex.join(words)} 2>&1'
    output = machine.run(script, stdin=invitations.invite(name, url=address, may=may).encode() + b"\n")
    say(output.strip().splitlines()[-1] if output.strip() else f"{name} has joined")
    return name


def _bring(machine: Machine, seen: dict[str, str], say: Progress) -> None:
    """Install this version and its dependencies there, in a directory of its own."""
    python = tuple(map(int, (seen.get("python") or "0.0").split(".")))
    if python < (3, 11):
        has = f"Python {seen['python']}" if seen.get("python") else "no Python"
        raise LocalError(
            f"{machine.where} has {has}, and 3.11 is needed",
            hint="install python3 and python3-venv there",
        )
    say(f"program bringing treadle {__version__} (it had {seen.get('treadle') or 'none'})")
    alike = seen.get("kind") == bringing.kind()
    if not (alike and _unpacked(machine, say)):
        machine.run(bringing.INSTALL, stdin=bringing.wheel(), timeout=900)
    say(f"program treadle {__version__} is in {bringing.PLACE} there")


def _unpacked(machine: Machine, say: Progress) -> bool:
    """Whether the program and its libraries were copied there and run."""
    try:
        machine.run(f"exec python3 -c {shlex.quote(bringing.UNPACK)}", stdin=bringing.archive(), timeout=900)
    except LocalError as error:
        say(f"program the libraries of this machine do not run there ({error}): it fetches its own")
        return False
    return True


# Tunnels, kept by the node of the machine that has the engine...


def _path() -> str:
    return os.path.join(places.inside(), "tunnels.json")


def tunnels() -> list[Tunnel]:
    data = read_if_there(_path())
    return [] if data is None else msgspec.json.decode(data, type=list[Tunnel])


def _keep_tunnel(tunnel: Tunnel) -> None:
    others = [each for each in tunnels() if each.name != tunnel.name]
    write_atomic(_path(), msgspec.json.encode([*others, tunnel]))


def remove(name: str) -> bool:
    """Remove a machine with its credentials and its tunnel."""
    write_atomic(_path(), msgspec.json.encode([each for each in tunnels() if each.name != name]))
    return invitations.remove(name)
