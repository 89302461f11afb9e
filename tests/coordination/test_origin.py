"""Which agent a process belongs to."""

import os
import subprocess
import sys

from treadle.coordination import identity
from treadle.io.process import table


def test_sessions_are_named_with_their_program() -> None:
    environ = {
        "CLAUDE_CODE_SESSION_ID": "a1",
        "CODEX_THREAD_ID": "t2",
        "TREADLE_SESSION": "opencode:s3",
        "PATH": "/bin",
    }
    assert sorted(identity.session_keys(environ)) == ["claude:a1", "codex:t2", "opencode:s3"]
    assert identity.session_keys({"CLAUDE_PROJECT_DIR": "/x"}) == []  # four programs set it


def test_a_client_that_adds_the_name_of_the_server_is_the_same_client() -> None:
    assert (
        identity.known_client("qwen-cli-mcp-client-heimdall") == identity.client_name("qwen") == "qwen-cli-mcp-client"
    )
    assert identity.known_client("claude-code") == "claude-code"


def test_a_process_is_its_number_and_its_start() -> None:
    mine = identity.key_of(os.getpid())
    assert mine is not None and table.lives(*mine) and not table.lives(mine[0], mine[1] + 1)
    assert identity.declared_process({"CLAUDE_PID": str(os.getpid())}, "claude") == mine
    assert identity.declared_process({"CLAUDE_PID": "nonsense"}, "claude") is None
    assert identity.declared_process({"CLAUDE_PID": str(os.getpid())}, "codex") is None


def test_a_process_that_is_given_on_is_read_back_and_nonsense_is_none() -> None:
    mine = identity.key_of(os.getpid())
    assert mine is not None and identity.key_of(2**22 + 1) is None
    given = identity.this_process()
    assert given == {"HEIMDALL_PROCESS": f"{mine[0]}:{mine[1]}"} and identity.given_process(given) == mine
    for text, found in (
        ("1:2", (1, 2)),
        (f"{'9' * 9}:{'9' * 19}", (int("9" * 9), int("9" * 19))),
        (f"{'9' * 10}:2", None),
        (f"1:{'9' * 20}", None),
        ("1:", None),
        (":2", None),
        ("x:2", None),
        ("1:x", None),
        ("", None),
    ):
        assert identity.given_process({"HEIMDALL_PROCESS": text}) == found, text
    assert identity.given_process({}) is None
    assert identity.declared_process({"CLAUDE_PID": "1" * 10}, "claude") is None
    assert identity.declared_process({"OPENCODE_PID": str(os.getpid())}, "opencode") == mine


CODE = "from treadle.coordination.identity import ancestors, starter; print(starter(), list(ancestors()))"


def test_a_shell_that_only_runs_the_one_command_is_nobody() -> None:
    mine = identity.key_of(os.getpid())
    for argv in ([sys.executable, "-c", CODE], ["sh", "-c", f'"{sys.executable}" -c "{CODE}"; true']):
        starter, _, rest = subprocess.check_output(argv, text=True).partition(") ")
        assert f"{starter})" == str(mine)
        assert str(mine) in rest
