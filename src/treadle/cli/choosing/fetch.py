"""Nothing is set up: what to type for each way, and the local model with all that it needs."""

import ctypes
import os
import shlex
import shutil
import sys
from importlib import invalidate_caches

from treadle.agent.providers.local.catalog import DEFAULT
from treadle.agent.providers.names import VENDORS
from treadle.cli.choosing.download import fetch
from treadle.cli.choosing.remembering import remember, say
from treadle.errors import ConfigError
from treadle.installation import argv_beside, has

OPENMP = "libgomp.so.1"
OPENMP_HINT = "Debian, Ubuntu: apt install libgomp1; Fedora: dnf install libgomp; Alpine: apk add libgomp"
FIRST = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI"}
"""Agents that are named to a person who does not have them; `treadle agents` lists all."""


def ways_in(not_yet: tuple[str, ...]) -> str:
    """What to type, one line for each way."""
    from treadle.drivers.card import cards

    rows = [(f"export {vendor.key}=...", f"a key for {name}") for name, vendor in VENDORS.items() if vendor.key]
    missing = {name: title for name, title in FIRST.items() if shutil.which(cards()[name].program) is None}
    rows += [(cards()[name].install, f"{title}; then run `{name}` once and sign in") for name, title in missing.items()]
    rows.append(("ollama serve", "Ollama, with a model that calls tools"))
    rows.append(("export TREADLE_BASE_URL=http://...", "any other server that speaks OpenAI's chat protocol"))
    width = max(len(typed) for typed, _ in rows)
    lines = ["Nothing is set up on this machine yet. Any one of these is enough; then type `treadle` again:", ""]
    lines += [f"  {typed:{width}}  {what}" for typed, what in rows]
    if not_yet:
        lines += ["", "Nearly there:", *(f"  {each}" for each in not_yet)]
    return "\n".join([*lines, ""])


async def fetch_local(plain: bool = False) -> str:
    """Install what runs local models, if it is missing, and fetch the model. Returns its name."""
    if sys.platform == "linux" and not _loads(OPENMP):
        await _install_openmp(plain)
    if not has("local"):
        await _install("local")
    await fetch(DEFAULT)
    say(remember("local", "native", "local"))
    return "local"


async def _install(extra: str) -> None:
    argv = argv_beside(extra)
    say(f"installing llama.cpp (34 MB), which runs it: {shlex.join(argv)}")
    code = await _run(argv)
    invalidate_caches()
    if code != 0 or not has(extra):
        raise ConfigError(f"the optional part treadle[{extra}] could not be installed", hint=shlex.join(argv))


async def _install_openmp(plain: bool) -> None:
    """llama.cpp needs a library that minimal systems do not have. If we may, it is installed here, after a question."""
    from treadle.cli.choosing.picker import choose_key

    lacks = f"llama.cpp needs {OPENMP}, which this system does not have"
    missing = ConfigError(lacks, hint=f"{OPENMP_HINT}; then try again")
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise missing
    commands = [["apt-get", "update"], ["apt-get", "install", "-y", "libgomp1"]]
    typed = " && ".join(map(shlex.join, commands))
    if await choose_key(f"{lacks}.\ni  install it now: {typed}\nq  leave", "iq", plain) != "i":
        raise missing
    for argv in commands:
        await _run(argv)
    if not _loads(OPENMP):
        raise missing


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


async def _run(argv: list[str]) -> int:
    from treadle.io.process.child import start

    async with await start(argv, stdout=2, stderr=2) as child:
        return await child.wait()
