"""`treadle explain`: what a state rests on."""

import json

from tests.cli.terminal.shells import Shell
from tests.terminal.recordings import load


def test_explain_says_what_a_state_rests_on(shell: Shell) -> None:
    recording = load("gemini-perm-allow")
    at = next(moment["byte"] for moment in recording.moments if moment["truth"] == "permission")
    (shell.cwd / "screen").write_bytes(recording.data[:at])
    shell("run", "--detach", "--id", "g", "--cols", "110", "--rows", "40", "--", "sh", "-c", "cat screen; cat")
    shell("wait", "g", "--state", "permission", "--timeout", "50")
    text = shell("explain", "g")
    assert "agent:    gemini, known by sight" in text and "no input box" in text and "Allow execution of" in text
    found = json.loads(shell("explain", "g", "--json"))
    assert found["state"] == "permission" and any(sign["seen"] for sign in found["signs"])
    done = shell.run("send", "g", "next", "thing", "--enter")
    assert done.returncode == 3 and "permission" in done.stderr
