"""The suites of two projects that speak the worker protocol, run on our worker. Run by `make test-worker-clients`.

ORBOROS is a checkout of Orboros: all of its tests are run, with `treadle-worker` where it starts a worker.
HEDDLE_SOURCE is a checkout of heddle: its tests of the program over pipes are built, then run with our worker in that
program's place. Both need cargo, and what they build from. The model is the scripted one. heddle's tests also hold
what is its own; where ours is meant to differ, the test is in DIFFERENT with the reason, and fails without harm.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

WORKER = Path(sys.executable).parent / "treadle-worker"
SCRIPT = '[[reply]]\ntimes = "always"\ntext = "Hello."\nusage = { input = 10, output = 5 }\n'
HEDDLE = ("headless_basic", "headless_send", "headless_heartbeat", "headless_replay")
# Each names what the protocol's specification says of it.
MISMATCH = "another major version is answered with init_ok and an error (`init_ok`: if versions are incompatible)"
RETRIED = "a model service that answers 500 is asked again, longer than the test waits (`provider_error` is retryable)"
ADDED = "what it looks for was added after the last run of this suite"
DIFFERENT = {
    "version_mismatch_returns_structured_error_and_exits": MISMATCH,
    "fixture_version_mismatch": MISMATCH,
    "provider_error_emits_error_event_and_structured_error_result": RETRIED,
    "fixture_error": RETRIED,
    "fixture_normal": ADDED,
    "fixture_heartbeat": ADDED,
    "init_returns_init_ok_with_session_id_and_protocol_version": ADDED,
    "routing_metadata_is_reported_through_init_and_status": "we do not route (no field of `init`, `status_ok`)",
    "isolated_runtime_places_transcript_outside_default_heddle_home": "it is refused (no field of `init`)",
    "loop_failure_includes_observed_policy_and_final_tool": ADDED,
    "cancel_interrupts_bash_tool_and_resolves_quickly": ADDED,
    "repeated_identical_send_persists_only_new_messages": "the history is in our own form (it names none)",
}
SUMS = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
FAILED = re.compile(r"^test (\S+) \.\.\. FAILED$", re.MULTILINE)


def main() -> int:
    orboros, heddle = (os.environ.get(name) for name in ("ORBOROS", "HEDDLE_SOURCE"))
    if shutil.which("cargo") is None:
        print("not run: cargo is not here")
        return 0
    if not orboros and not heddle:
        print("not run: ORBOROS=DIRECTORY and HEDDLE_SOURCE=DIRECTORY name checkouts of these projects")
        return 0
    with tempfile.TemporaryDirectory() as home, serving(Path(home)) as url:
        env = {**os.environ, "HOME": home, "TREADLE_HOME": home, "HEDDLE_HOME": home, "OPENROUTER_API_KEY": "none"}
        env |= {name: os.environ.get(name) or str(Path.home() / place) for name, place in KEPT.items()}
        failed = 0
        if orboros:
            given = {**env, "HEDDLE_BINARY": str(WORKER), "HEDDLE_BASE_URL": url}
            failed += report("Orboros", run(["cargo", "test", "--no-fail-fast"], orboros, given))
        if heddle:
            failed += report("heddle", "".join(run_heddle(heddle, env)))
    return bool(failed)


KEPT = {"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"}
"""Where cargo keeps what it has; the rest of the home directory is not for the tests."""


@contextlib.contextmanager
def serving(place: Path) -> Iterator[str]:
    script = place / "script.toml"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "treadle.testing.server", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1].rstrip("/")
        finally:
            server.terminate()


def run(command: list[str], cwd: str, env: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, text=True)
    return done.stdout


def run_heddle(source: str, env: dict[str, str]) -> Iterator[str]:
    """Its tests have the path of the program compiled in, so ours is put there for as long as they run."""
    wanted = [word for name in HEDDLE for word in ("--test", name)]
    built = run(["cargo", "test", "--no-run", "--message-format", "json", *wanted], source, env)
    lines = [json.loads(line) for line in built.splitlines() if line.startswith("{")]
    made = {line["target"]["name"]: line["executable"] for line in lines if line.get("executable")}
    program = Path(made["heddle-headless"])
    with replaced(program):
        for name in HEDDLE:
            yield run([made[name]], source, env)


@contextlib.contextmanager
def replaced(program: Path) -> Iterator[None]:
    aside = program.with_name(f"{program.name}.built")
    program.rename(aside)
    try:
        program.write_text(f'#!/bin/sh\nexec "{WORKER}" "$@"\n')
        program.chmod(0o755)
        yield
    finally:
        aside.replace(program)


def report(name: str, said: str) -> int:
    """One line with the sums, and one for each test that failed. Returns how many of them ought to have passed, 1 when
    nothing was run."""
    sums = [[int(number) for number in found] for found in SUMS.findall(said)]
    passed, failed, ignored = (sum(column) for column in zip(*sums, strict=True)) if sums else (0, 1, 0)
    print(f"{name}: {passed} passed, {failed} failed, {ignored} ignored" if sums else f"{name}: not built, see above")
    names = FAILED.findall(said)
    for test in names:
        print(f"  {test}{f': different, {DIFFERENT[test]}' if test in DIFFERENT else ''}")
    return failed - sum(test in DIFFERENT for test in names)


if __name__ == "__main__":
    sys.exit(main())
