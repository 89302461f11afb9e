"""`treadle fleet add ssh://HOST`: makes another machine a worker over SSH.

The machine is inspected, gets the program if it lacks this version, joins with a code that is used at once, and its
node is started. Where the engine listens on loopback only, this machine's node keeps a tunnel to it open.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

import treadle
from treadle import __version__
from treadle.errors import ConfigError, LocalError
from treadle.fleet.engine import places
from treadle.fleet.join import invitations
from treadle.io.files import read
from treadle.io.process.programs import command_words, run_program
from treadle.io.records import FileRecord

if TYPE_CHECKING:
    from importlib.metadata import Distribution
    from tarfile import TarFile


# Brings the program from this machine to one that has none.
#
# A machine of the same kind (system, processor, Python) gets this program and the libraries that it uses in one
# archive, which is unpacked there: no package index is needed, and nothing is built. Any other gets the program as a
# wheel, and fetches the libraries itself.
#
# A node loads this module too, and brings nothing: what only an archive needs is loaded where one is made.

PLACE = ".local/share/treadle/program"
"""Where the program is put on a machine that has none, below its home."""
WHEEL = f"treadle-{__version__}-py3-none-any.whl"
KIND = """
import sys, sysconfig
print(sys.implementation.cache_tag, sysconfig.get_platform(), sysconfig.get_config_var("SOABI"))
"""
"""What two machines must have in common so that the libraries of one run on the other."""
UNPACK = f"""
import os, shutil, subprocess, sys, tarfile, venv
place = os.path.expanduser("~/{PLACE}")
new, old = place + ".new", place + ".old"
shutil.rmtree(new, ignore_errors=True)
venv.create(new, symlinks=True)
python = os.path.join(new, "bin", "python")
ask = 'import sysconfig; print(sysconfig.get_path("purelib"))'
site = subprocess.run([python, "-c", ask], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
safe = dict(filter="data") if hasattr(tarfile, "data_filter") else dict()
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz") as archive:
    for member in archive:
        folder, _, member.name = member.name.partition("/")
        archive.extract(member, dict(site=site, bin=os.path.join(new, "bin"))[folder], **safe)
# The machine may be too old for the libraries, though it is of the same kind.
try_all = "import cryptography.x509, html_to_markdown, msgspec, nats, nkeys, tree_sitter, tree_sitter_bash, treadle.cli"
subprocess.run([python, "-P", "-c", try_all], check=True)
command = "#!" + os.path.join(place, "bin", "python") + "\\nimport sys\\nfrom %s import %s\\nsys.exit(%s())\\n"
import importlib.metadata
(about,) = importlib.metadata.distributions(name="treadle", path=[site])
for entry in about.entry_points:
    if entry.group == "console_scripts":
        path = os.path.join(new, "bin", entry.name)
        with open(path, "w") as file:
            file.write(command % (entry.module, entry.attr, entry.attr))
        os.chmod(path, 0o755)
shutil.rmtree(old, ignore_errors=True)
if os.path.lexists(place):
    os.rename(place, old)
os.rename(new, place)
shutil.rmtree(old, ignore_errors=True)
"""
INSTALL = f"""set -e
mkdir -p "$HOME/{PLACE}"
cat > "$HOME/{PLACE}/{WHEEL}"
python3 -m venv "$HOME/{PLACE}"
"$HOME/{PLACE}/bin/python" -m pip install --quiet --disable-pip-version-check --force-reinstall \
    "$HOME/{PLACE}/{WHEEL}[fleet]" >&2
rm "$HOME/{PLACE}/{WHEEL}"
"""


def kind() -> str:
    """The kind of this machine."""
    return f"{sys.implementation.cache_tag} {sysconfig.get_platform()} {sysconfig.get_config_var('SOABI')}"


def program() -> Iterator[tuple[str, bytes]]:
    """The files of this program as installed, with its metadata."""
    top = os.path.dirname(os.path.abspath(treadle.__file__))
    for here, folders, files in os.walk(top):
        folders[:] = sorted(each for each in folders if each != "__pycache__")
        for file in sorted(files):
            path = os.path.join(here, file)
            yield os.path.join("treadle", os.path.relpath(path, top)), read(path)
    from importlib.metadata import distribution

    about = distribution("treadle")
    for name in ("METADATA", "entry_points.txt"):
        yield f"treadle-{__version__}.dist-info/{name}", (about.read_text(name) or "").encode()


def libraries() -> dict[str, Distribution]:
    """What the program needs, directly or not. What only other systems need is not installed here."""
    from importlib.metadata import PackageNotFoundError, distribution

    found: dict[str, Distribution] = {}
    waiting: list[tuple[str, tuple[str, ...]]] = [("treadle", ("fleet",))]
    while waiting:
        name, extras = waiting.pop()
        for line in distribution(name).requires or ():
            needs = re.match(r"([\w.-]+)(?:\[([^\]]*)\])?", line)
            only_for = re.search(r"\bextra\s*==\s*['\"]([^'\"]+)['\"]", line)
            if needs is None or (only_for and only_for[1] not in extras) or needs[1] in found:
                continue
            try:
                found[needs[1]] = distribution(needs[1])
            except PackageNotFoundError:
                continue
            waiting.append((needs[1], tuple((needs[2] or "").split(","))))
    return found


def archive() -> bytes:
    """Everything for a machine of the same kind: `site/` for its libraries, `bin/` for programs."""
    import tarfile

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz", compresslevel=1) as made:
        for name, content in program():
            _add(made, f"site/{name}", content, 0o644)
        for library in libraries().values():
            for file in library.files or ():
                path = str(library.locate_file(file))
                if "__pycache__" in file.parts or not os.path.isfile(path):
                    continue
                content = read(path)
                if ".." not in file.parts:
                    _add(made, f"site/{file}", content, 0o755 if os.access(path, os.X_OK) else 0o644)
                elif file.parts[-2] == "bin" and not content.startswith(b"#!"):  # a script names this machine's Python
                    _add(made, f"bin/{file.name}", content, 0o755)
    return data.getvalue()


def _add(made: TarFile, name: str, content: bytes, mode: int) -> None:
    about = made.tarinfo(name)
    about.size, about.mode = len(content), mode
    made.addfile(about, io.BytesIO(content))


def wheel() -> bytes:
    """Only this program, to be installed by pip."""
    folder = f"treadle-{__version__}.dist-info"
    tag = "Wheel-Version: 1.0\nGenerator: treadle\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in (*program(), (f"{folder}/WHEEL", tag.encode())):
            made.writestr(name, content)
        made.writestr(f"{folder}/RECORD", "".join(f"{name},,\n" for name in [*made.namelist(), f"{folder}/RECORD"]))
    return data.getvalue()


Progress = Callable[[str], None]
LOOK = f"""
export PATH="$HOME/{PLACE}/bin:$PATH"
echo "host $(uname -n)"
echo "kind $(python3 -c {shlex.quote(KIND)} 2>/dev/null)"
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
    script = f'PATH="$HOME/{PLACE}/bin:$PATH"; treadle fleet join - {shlex.join(words)} 2>&1'
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
    say(f"program installing treadle {__version__} (it had {seen.get('treadle') or 'none'})")
    alike = seen.get("kind") == kind()
    if not (alike and _unpacked(machine, say)):
        machine.run(INSTALL, stdin=wheel(), timeout=900)
    say(f"program treadle {__version__} is in {PLACE} there")


def _unpacked(machine: Machine, say: Progress) -> bool:
    """Whether the program and its libraries were copied there and run."""
    try:
        machine.run(f"exec python3 -c {shlex.quote(UNPACK)}", stdin=archive(), timeout=900)
    except LocalError as error:
        say(f"program the libraries of this machine do not run there ({error}): installing its own")
        return False
    return True


# Tunnels, kept by the node of the machine that has the engine...


def _path() -> str:
    return os.path.join(places.inside(), "tunnels.json")


TUNNELS = FileRecord(list[Tunnel])


def tunnels() -> list[Tunnel]:
    return TUNNELS.load(_path()) or []


def _keep_tunnel(tunnel: Tunnel) -> None:
    others = [each for each in tunnels() if each.name != tunnel.name]
    TUNNELS.save(_path(), [*others, tunnel])


def remove(name: str) -> bool:
    """Remove a machine with its credentials and its tunnel."""
    TUNNELS.save(_path(), [each for each in tunnels() if each.name != name])
    return invitations.remove(name)
