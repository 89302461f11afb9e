"""Brings the program from this machine to one that has none.

A machine of the same kind (system, processor, Python) gets this program and the libraries that it uses in one archive,
which is unpacked there: no package index is needed, and nothing is built. Any other gets the program as a wheel, and
fetches the libraries itself.

A node loads this module too, and brings nothing: what only an archive needs is loaded where one is made.
"""

from __future__ import annotations

import io
import os
import re
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import treadle
from treadle import __version__
from treadle.io.reading import read

if TYPE_CHECKING:
    from importlib.metadata import Distribution
    from tarfile import TarFile

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
