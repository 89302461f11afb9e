"""Play a newcomer on a bare Debian: how many commands and seconds until a failing test of their own is fixed?

    python -m tests.newcomer ROOT [--pictures DIRECTORY] [key] [agent] [nothing]

ROOT is a directory that `debootstrap --variant=minbase --include=python3,python3-venv,pipx,git,ca-certificates bookworm
ROOT` has made; it is copied, not changed. Certificates and pip settings of the machine are passed in, so that it works
behind a mirror. Three cases: one key (a scripted service answers), one agent that is installed and signed in (Codex,
with the same service behind it), and nothing (the local model). It needs bubblewrap and the network, so it is
no part of the tests.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.cli.chat.terminal import ChatTerminal
from tests.drivers.programs import install
from tests.scripts import calls, says
from treadle.agent.providers.script import Script, parse
from treadle.terminal.viewers.screen import save
from treadle.testing.server import ModelServer

HERE = Path(__file__).parent.parent
SHOP = HERE / "src" / "treadle" / "cli" / "fleet" / "demo_project"
INSTALL = "pipx install '../treadle[all]'"
PROMPT = "python3 check_prices.py fails. Fix prices.py; the test is right."
FIX = "sed -i 's|percent // 10$|percent // 100|' prices.py && python3 check_prices.py"
READY = r"(?m)^newcomer>$"
TURN_OVER = r"\d\.\d s · "
CERTIFICATES = ("/etc/ssl/certs", "/etc/resolv.conf", "/etc/hosts")


class Newcomer:
    """A shell in the root, on a terminal. What is typed is counted."""

    def __init__(self, root: Path, env: dict[str, str], scenes: Callable[[str, ChatTerminal], None]) -> None:
        mounts = [word for place in CERTIFICATES for word in ("--ro-bind-try", os.path.realpath(place), place)]
        wheels = [
            word for place in os.environ.get("PIP_FIND_LINKS", "").split() for word in ("--ro-bind", place, place)
        ]
        command = [
            "bwrap",
            "--bind",
            str(root),
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--tmpfs",
            "/tmp",
            *mounts,
            *wheels,
        ]
        command += ["--chdir", "/root/shop", "--unshare-pid", "--die-with-parent", "bash", "--norc"]
        pip = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        base = {"HOME": "/root", "TERM": "xterm-256color", "PATH": path, "PS1": "newcomer> ", "LANG": "C.UTF-8"}
        self.terminal = ChatTerminal(command, HERE, {**pip, **base, **env}, 110, 36)
        self.typed: list[str] = []
        self.began = time.monotonic()
        self._scene = scenes

    def type(self, command: str, until: str, seconds: float = 900) -> str:
        self.typed.append(command)
        self.terminal.keys(command)
        self.terminal.until(r"> \S")  # the empty prompt is gone
        self.terminal.keys("\r")
        return self.wait(until, seconds)

    def wait(self, until: str, seconds: float = 900) -> str:
        return self.terminal.until(until, seconds)

    def seen(self, name: str) -> None:
        self._scene(name, self.terminal)

    def seconds(self) -> float:
        return time.monotonic() - self.began


def native_script() -> Script:
    return parse(
        calls("read_file", {"file_path": "prices.py"}, when="fails")
        + calls(
            "edit_file",
            {
                "file_path": "prices.py",
                "old_string": "discount_percent // 10\n",
                "new_string": "discount_percent // 100\n",
            },
            when="full \\* discount_percent",
        )
        + calls("bash", {"command": "python3 check_prices.py"}, when="(?i)replaced|edited|discount_percent // 100")
        + says("Fixed: the discount was divided by 10.", times="always")
    )


def codex_script() -> Script:
    return parse(
        calls("exec_command", {"cmd": FIX}, when="fails") + says("Fixed, and the test passes.", times="always")
    )


def answer_all(who: Newcomer, done: str) -> None:
    """Say yes to what is asked until the work is done."""
    while True:
        seen = who.wait(rf"{done}|waiting for you 0:0[1-9]")
        if "waiting for you" not in seen:
            return
        who.seen("question")
        who.terminal.keys("y")
        who.terminal.until_gone("waiting for you")


async def with_key(place: Path, scenes: Callable[[str, ChatTerminal], None]) -> tuple[Newcomer, str]:
    async with ModelServer(native_script()) as server:
        env = {"ANTHROPIC_API_KEY": "scripted", "ANTHROPIC_BASE_URL": server.url}
        return await asyncio.to_thread(play, place, env, scenes, "Fixed: the discount")


async def with_agent(place: Path, scenes: Callable[[str, ChatTerminal], None]) -> tuple[Newcomer, str]:
    """Codex with a service of its own in its settings, so that no key of ours is there to be found."""
    bins = install("codex")
    [program] = list(bins.parent.glob("@openai/codex-linux-x64/vendor/*/bin/codex"))
    shutil.copy2(program, place / "usr/local/bin/codex")
    async with ModelServer(codex_script(), batch=False) as server:
        (place / "root/.codex").mkdir()
        (place / "root/.codex/config.toml").write_text(
            'model = "scripted"\nmodel_provider = "scripted"\n[model_providers.scripted]\nname = "scripted"\n'
            f'base_url = "{server.url}/v1"\nwire_api = "responses"\n'
        )
        return await asyncio.to_thread(play, place, {}, scenes, "Fixed, and the test")


def play(
    place: Path, env: dict[str, str], scenes: Callable[[str, ChatTerminal], None], done: str
) -> tuple[Newcomer, str]:
    who = Newcomer(place, env, scenes)
    who.wait(READY)
    who.began = time.monotonic()
    who.type(INSTALL, READY)
    who.typed.append(f'~/.local/bin/treadle "{PROMPT}"')
    who.terminal.say(who.typed[-1])
    who.wait("using |Which one")
    who.seen("chosen")
    answer_all(who, done)
    took = who.seconds()
    who.seen("done")
    return who, f"{took:.0f} s"


async def with_nothing(place: Path, scenes: Callable[[str, ChatTerminal], None]) -> tuple[Newcomer, str]:
    def alone() -> tuple[Newcomer, str]:
        who = Newcomer(place, {}, scenes)
        who.wait(READY)
        who.began = time.monotonic()
        who.type(INSTALL, READY)
        installed = who.seconds()
        who.type(f'~/.local/bin/treadle "{PROMPT}"', r"\[l/q\]")
        who.seen("nothing")
        who.terminal.say("l")
        if "[i/q]" in who.wait(r"local is used from now on|\[i/q\]", 1800):  # a bare Debian lacks libgomp
            who.seen("library")
            who.terminal.say("i")
        who.wait("local is used from now on", 1800)
        fetched = who.seconds()
        who.seen("fetched")
        answer_all(who, TURN_OVER)
        who.seen("done")
        return who, f"{who.seconds():.0f} s ({installed:.0f} to install, {fetched - installed:.0f} to fetch the model)"

    return await asyncio.to_thread(alone)


CASES = {"key": with_key, "agent": with_agent, "nothing": with_nothing}


def prepared(root: Path, scratch: Path) -> Path:
    """A copy of the root with a clone of this repository and a repository of the newcomer's own."""
    place = scratch / "root"
    subprocess.run(["cp", "-a", "--reflink=auto", str(root), str(place)], check=True)
    subprocess.run(["git", "clone", "-q", str(HERE), str(place / "root/treadle")], check=True)
    shop = place / "root/shop"
    shop.mkdir()
    for name in ("prices.py", "check_prices.py"):
        shutil.copy(SHOP / f"{name}.txt", shop / name)
    identity = ["-c", "user.name=newcomer", "-c", "user.email=newcomer@example.invalid"]
    for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "A shop"]):
        subprocess.run(["git", *command], cwd=shop, check=True)
    return place


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("cases", nargs="*", metavar="key|agent|nothing")
    given = parser.parse_intermixed_args()
    for name in given.cases or CASES:

        def scene(what: str, terminal: ChatTerminal, name: str = name) -> None:
            if given.pictures:
                save(terminal.screen, str(given.pictures / f"newcomer-{name}-{what}.png"))

        with tempfile.TemporaryDirectory(prefix="newcomer-") as scratch:
            place = prepared(given.root, Path(scratch))
            who, took = asyncio.run(CASES[name](place, scene))
            who.terminal.__exit__(None, None, None)
            check = ["python3", "check_prices.py"]
            passed = subprocess.run(check, cwd=place / "root/shop", capture_output=True).returncode == 0
            verdict = "passes" if passed else "FAILS"
            print(f"{name}: {len(who.typed)} commands, {took}, the test {verdict}", flush=True)


if __name__ == "__main__":
    main()
