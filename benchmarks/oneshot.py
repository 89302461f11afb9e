"""`treadle -p` answering one scripted turn over HTTP, against `claude -p` and `codex exec` on the same scripted server.

The others are measured where their binaries are on PATH. Wall time and peak memory are medians over interleaved rounds.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 7
SCRIPT = '[[reply]]\ntimes = "always"\ntext = "The answer is here."\nusage = { input = 10, output = 5 }\n'


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        script = Path(place) / "script.toml"
        script.write_text(SCRIPT)
        server = subprocess.Popen(
            [sys.executable, "-m", "treadle.testing.server", str(script)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1].rstrip("/")
            _compare(_contenders(url, Path(place)), Path(place))
        finally:
            server.terminate()
            server.wait()


def _contenders(url: str, place: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    treadle = str(Path(sys.executable).parent / "treadle")
    base = {"PATH": os.environ["PATH"], "HOME": str(place), "TREADLE_HOME": str(place / "state")}
    found = {
        "treadle -p": (
            [treadle, "-p", "hello", "--model", "chat:m"],
            {**base, "TREADLE_BASE_URL": url, "TREADLE_API_KEY": "none"},
        )
    }
    if claude := shutil.which("claude"):
        found["claude -p"] = (
            [claude, "-p", "hello"],
            {
                **base,
                "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CONFIG_DIR": str(place / "claude"),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
            },
        )
    if codex := shutil.which("codex"):
        home = place / "codex"
        home.mkdir()
        (home / "config.toml").write_text(
            'model = "m"\nmodel_provider = "scripted"\n[model_providers.scripted]\nname = "scripted"\n'
            f'base_url = "{url}"\nenv_key = "SCRIPTED_KEY"\nwire_api = "responses"\n'
        )
        found["codex exec"] = (
            [codex, "exec", "--skip-git-repo-check", "hello"],
            {**base, "CODEX_HOME": str(home), "SCRIPTED_KEY": "none"},
        )
    return found


def _compare(contenders: dict[str, tuple[list[str], dict[str, str]]], place: Path) -> None:
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, (command, env) in contenders.items():
            taken[name].append(_run(command, env, place))
    ours = [statistics.median(values) for values in zip(*taken["treadle -p"], strict=True)]
    for name, runs in taken.items():
        seconds, megabytes = (statistics.median(values) for values in zip(*runs, strict=True))
        print(
            f"{name:12} {seconds * 1000:7.0f} ms ({seconds / ours[0]:4.2f}x ours)   "
            f"{megabytes:6.1f} MB peak ({megabytes / ours[1]:4.2f}x ours)"
        )


MEASURE = """
import os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
said = process.stdout.read()
_, status, usage = os.wait4(process.pid, 0)
print(time.perf_counter() - started, usage.ru_maxrss / 1024, status, b"The answer is here." in said)
"""


def _run(command: list[str], env: dict[str, str], place: Path) -> tuple[float, float]:
    """Seconds and megabytes. A small process starts it: the kernel counts the starter's memory as the started one's."""
    measuring = [sys.executable, "-I", "-S", "-c", MEASURE, *command]
    said = subprocess.run(measuring, env=env, cwd=place, capture_output=True, text=True, check=True).stdout.split()
    assert said[2:] == ["0", "True"], f"{command[0]} failed: {said}"
    return float(said[0]), float(said[1])


if __name__ == "__main__":
    main()
