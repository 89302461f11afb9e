"""Build the wheel and the sdist, install the wheel in an environment of its own, and try it there as a user would.

    python -m tests.packaged

It needs the network, as an installation does, so it is no part of the tests; the gate runs it.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCRIPT = '[[reply]]\ntext = "It weaves."\n'


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place / "dist"), str(ROOT)])
        [wheel] = (place / "dist").glob("*.whl")
        [sdist] = (place / "dist").glob("*.tar.gz")
        look_into(wheel, sdist)
        run([sys.executable, "-m", "venv", str(place / "clean")])
        run(
            [
                str(place / "clean/bin/python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                str(wheel),
            ]
        )
        try_it(place)
    print(f"{wheel.name} and {sdist.name} were built, installed and tried")


def look_into(wheel: Path, sdist: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for needed in ("treadle/py.typed", "treadle/docs/reference/one-shot.md", "treadle/__init__.pyi"):
        assert needed in names, f"{needed} is not in the wheel"
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in (
        "src/treadle/cli/root.py",
        "tests/conftest.py",
        "docs/README.md",
        "LICENSE",
        "CHANGELOG.md",
        "Makefile",
    ):
        assert needed in names, f"{needed} is not in the sdist"


def try_it(place: Path) -> None:
    """In a directory that is not the checkout, with nothing of the developer's environment."""
    (place / "script.toml").write_text(SCRIPT)
    bin = place / "clean/bin"
    env = {
        "PATH": f"{bin}:/usr/bin:/bin",
        "HOME": str(place),
        "TREADLE_MODEL": f"scripted:{place / 'script.toml'}",
        "LANG": "C.UTF-8",
    }
    assert run([str(bin / "treadle"), "--version"], env, place).startswith("treadle ")
    assert run([str(bin / "treadle"), "-p", "what does it do?"], env, place) == "It weaves.\n"
    assert run([str(bin / "treadle"), "docs", "one-shot"], env, place).startswith("# One-shot")
    assert "complete" in run([str(bin / "treadle"), "completion", "bash"], env, place)
    assert "ripgrep" in run([str(bin / "treadle"), "doctor"], env, place)
    assert "heimdall-claim" in run([str(bin / "heimdall-claim"), "--help"], env, place)
    code = "import treadle; print(treadle.run('what?', cwd='.').text)"
    assert run([str(bin / "python"), "-c", code], env, place) == "It weaves.\n"


def run(argv: list[str], env: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    done = subprocess.run(argv, cwd=cwd, env=env or dict(os.environ), capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(argv)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
