"""An agent that somebody else wrote, installed with pip in an environment of its own, is used over three doors."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

PROGRAM = "#!{python}\nfrom treadle.cli import main\nmain()\n"


def environment(place: Path) -> Path:
    """One with Treadle and what it needs; nothing is fetched. The path of its programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=120)
    bins = place / "bin"
    [site] = (place / "lib").glob("python*/site-packages")
    (site / "ours.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    (bins / "treadle").write_text(PROGRAM.format(python=bins / "python"))
    (bins / "treadle").chmod(0o755)
    return bins


@pytest.mark.slow
def test_an_agent_of_others_is_installed_allowed_and_used_over_three_doors(tmp_path: Path) -> None:
    bins = environment(tmp_path / "clean")
    work = tmp_path / "work"
    work.mkdir()

    def run(*words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, "PATH": f"{bins}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run(words, input=given, cwd=work, env=env, capture_output=True, text=True, timeout=250)

    written = run("treadle", "agents", "new", "loom")
    assert written.returncode == 0, written.stderr
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check")
    done = run(
        sys.executable, "-m", "pip", "--python", str(bins / "python"), "install", *options, "./treadle-agent-loom"
    )
    assert done.returncode == 0, done.stderr
    refused = run("treadle", "-p", "hello", "--agent", "loom:echo so:")
    assert refused.returncode != 0 and "treadle extensions allow treadle-agent-loom" in refused.stderr
    assert "treadle-agent-loom 0.1.0 may be used" in run("treadle", "extensions", "allow", "treadle-agent-loom").stdout

    oneshot = run("treadle", "-p", "hello", "--agent", "loom:echo so:")
    assert (oneshot.stdout.strip(), oneshot.returncode) == ("so: hello", 0), oneshot.stderr

    hosted = run(
        "treadle",
        "host",
        "run",
        "--no-sandbox",
        "--task",
        "hello",
        "--sidecar",
        "treadle sidecar --agent 'loom:echo so:'",
    )
    assert hosted.returncode == 0 and "so: hello" in hosted.stderr, hosted.stdout + hosted.stderr

    with subprocess.Popen(
        [str(bins / "treadle"), "acp", "--agent", "loom:echo so:"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=work,
    ) as editor:
        assert editor.stdin is not None and editor.stdout is not None

        def call(number: int, method: str, **params: object) -> tuple[dict[str, object], list[str]]:
            assert editor.stdin is not None and editor.stdout is not None
            editor.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
            editor.stdin.flush()
            seen = []
            for line in editor.stdout:
                if json.loads(line).get("id") == number:
                    return json.loads(line)["result"], seen
                seen.append(line)
            raise AssertionError(f"no answer to {method}")

        call(1, "initialize", protocolVersion=1, clientCapabilities={})
        session = call(2, "session/new", cwd=str(work), mcpServers=[])[0]["sessionId"]
        result, updates = call(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "hello"}])
        assert result["stopReason"] == "end_turn" and "so: hello" in "".join(updates)
        editor.stdin.close()

    # All its clauses are tried on our own agent (tests/conform); of these, some are enough for the way to them.
    own = work / "treadle-agent-loom" / "tests" / "test_conformance.py"
    own.write_text(own.read_text().replace('"--json"', '"--json", "--only", "session/cancel"'))
    done = run(str(bins / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "treadle-agent-loom")
    assert done.returncode == 0, done.stdout[-3000:]
