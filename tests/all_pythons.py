"""The whole suite on every Python that Treadle supports and this machine has. Run by `make test-all-pythons`.

An interpreter is looked for on the PATH and among pyenv's; each gets an environment of its own in `.venv-VERSION`.
Arguments are passed to pytest: `make test-all-pythons TESTS=tests/wire`.
"""

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def find(version: str) -> str | None:
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    installed = sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python{version}"), reverse=True)
    return next(filter(works, [shutil.which(f"python{version}") or "", *installed]), None)


def works(program: str) -> bool:
    """pyenv puts a program on the PATH for every version that it knows, also for those that are switched off."""
    return bool(program) and subprocess.run([program, "-c", "import venv"], capture_output=True).returncode == 0


def environment(version: str, program: str) -> str:
    """The Python of an environment with all that the tests need."""
    place = TOP / f".venv-{version}"
    python = str(place / "bin" / "python")
    if not (place / ".ready").exists():
        print(f"{version}: setting up {place.name}...", flush=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([program, "-m", "venv", str(place)], check=True)
        subprocess.run([*install, "--upgrade", "pip>=25.1"], check=True)
        # The SDK's wheel carries a program of 350 MB; its source does not.
        no_wheel = ["--no-binary", "claude-agent-sdk"]
        subprocess.run([*install, *no_wheel, "--group", "dev", "-e", ".[all]"], check=True, cwd=TOP)
        (place / ".ready").touch()
    return python


def main(arguments: list[str]) -> int:
    results = {}
    for version in VERSIONS:
        program = find(version)
        if program is None:
            results[version] = "not on this machine"
            continue
        try:
            python = environment(version, program)
        except subprocess.CalledProcessError as error:
            results[version] = f"could not be set up: {error}"
            continue
        print(f"{version}: {program}", flush=True)
        command = [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *(arguments or ["tests"])]
        code = subprocess.run(command, cwd=TOP).returncode
        results[version] = "passed" if code == 0 else f"failed with code {code}"
    for version, result in results.items():
        print(f"Python {version}: {result}")
    tried = [result for result in results.values() if result != "not on this machine"]
    return 0 if tried and set(tried) == {"passed"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
