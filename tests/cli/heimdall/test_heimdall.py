"""What all `heimdall-*` commands share: arguments, exit codes, weight; and `treadle coord`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.coordination.conftest import BIN, Run
from treadle.cli.heimdall import COMMANDS, Arguments, UsageError


def test_options_take_the_next_word_or_what_follows_the_equals_sign() -> None:
    args = Arguments(["a", "--task", "T", "--spec=x=y", "--json", "--", "--task"], "--task --spec", "--json")
    assert (args.rest, args.values, args.flags) == (["a", "--task"], {"--task": "T", "--spec": "x=y"}, {"--json"})


def test_values_may_look_like_numbers() -> None:
    assert Arguments(["set", "k", "-5", "-"]).rest == ["set", "k", "-5", "-"]


@pytest.mark.parametrize("words", [["--task"], ["--nothing"], ["-x"], ["--json=1"]])
def test_what_is_not_an_option_is_said(words: list[str]) -> None:
    with pytest.raises(UsageError):
        Arguments(words, "--task", "--json")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "ledger-mcp"])
def test_a_command_typed_wrongly_teaches_and_exits_with_2(heimdall: Run, name: str) -> None:
    done = heimdall(name, "--no-such-option", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"heimdall-{name}: " in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_does_its_work_whatever_streams_are_missing(heimdall: Run, project: Path, closed: str) -> None:
    command = f'"{BIN}/heimdall-resolve" set F1 x {closed}; echo $?; "{BIN}/heimdall-validate" {closed}; echo $?'
    done = subprocess.run(["sh", "-c", command], cwd=project, capture_output=True, text=True, input="{}")
    assert [line for line in done.stdout.splitlines() if line.isdecimal()] == ["0", "1"] and done.stderr == ""
    assert heimdall("resolve", "F1").stdout == "x\n"


def test_output_that_cannot_be_written_is_said_in_one_line(project: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for arguments in (["--help"], ["list"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [str(BIN / "heimdall-claim"), *arguments], cwd=project, stdout=full, stderr=subprocess.PIPE, env=env
            )
        assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and b"No space left" in done.stderr


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_is_light(name: str) -> None:
    module = f"treadle.cli.heimdall.{name.replace('-', '_')}"
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"msgspec", "asyncio", "dataclasses", "psutil", "tomllib", "click", "inspect", "typing"}
    assert not heavy & set(loaded.split())


def test_treadle_coord_is_the_same_commands(heimdall: Run, project: Path) -> None:
    def coord(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        command = [str(BIN / "treadle"), "coord", *arguments]
        return subprocess.run(command, cwd=project, capture_output=True, text=True, input=stdin)

    assert coord("resolve", "set", "F1", "x").stdout == "F1 = x\n"
    assert heimdall("resolve", "F1").stdout == "x\n"
    assert coord("resolve", "F9").returncode == 1
    assert coord("resolve", "--help").stdout == heimdall("resolve", "--help").stdout
    assert coord("validate", stdin="{").stdout == '{"valid":false,"errors":["unparseable JSON"]}\n'
    overview = coord()
    assert overview.returncode == 0 and all(name in overview.stdout for name in COMMANDS)
    assert coord("nonsense").returncode == 2


def test_the_umbrella_dispatches_and_passes_exit_codes_through(heimdall: Run) -> None:
    heimdall("protocol", "resolve", "set", "F1", "x")
    assert heimdall("protocol", "resolve", "F1").stdout == "x\n"
    assert heimdall("protocol", "resolve", "F9").returncode == 1
    assert heimdall("protocol", "claim", "claim").returncode == 2
    assert heimdall("protocol", "nonsense").returncode == 2


def test_the_trail_can_be_tailed(heimdall: Run) -> None:
    for number in range(25):
        heimdall("resolve", "set", f"F{number}", "x")
    assert len(heimdall("protocol", "log").stdout.splitlines()) == 20
    assert heimdall("protocol", "log", "2").stdout.splitlines()[1].endswith("\tresolve\tset\tF24=x")
    for number in ("x", "-1", "9" * 30):
        assert heimdall("protocol", "log", number).returncode == 2


def test_a_declared_identity_that_was_revoked_can_do_nothing(heimdall: Run) -> None:
    ann = "haid:ann.box-0001"
    heimdall("haid", "register", "--haid", ann)
    assert heimdall("haid", "revoke", ann).returncode == 0
    assert heimdall("haid", "check", ann).returncode == 3
    for words in (["resolve", "set", "F1", "x"], ["claim", "claim", "a", "--task", "T"], ["blackboard", "get", "k"]):
        done = heimdall(*words, HEIMDALL_HAID=ann)
        assert done.returncode == 2 and "revoked" in done.stderr
    for words in (["reinstate", ann], ["register"], ["spawn", "helper"], ["revoke", "haid:bob.box-0002"]):
        assert heimdall("haid", *words, HEIMDALL_HAID=ann).returncode == 2
    heimdall("haid", "reinstate", ann)
    assert heimdall("resolve", "set", "F1", "x", HEIMDALL_HAID=ann).returncode == 0


def test_a_checkout_that_was_revoked_can_do_nothing_but_let_a_person_lift_it(heimdall: Run) -> None:
    own = heimdall("haid", "register").stdout.strip()
    heimdall("haid", "revoke", own)
    for words in (
        ["resolve", "set", "F1", "x"],
        ["protocol", "init"],
        ["protocol", "blackboard", "list"],
        ["validate"],
    ):
        done = heimdall(*words)
        assert done.returncode == 2 and f"{own} is revoked" in done.stderr
    assert heimdall("resolve", "set", "F1", "x", HEIMDALL_HAID="haid:bob.box-0002").returncode == 0
    assert heimdall("protocol", "haid", "reinstate", own).returncode == 0
    assert heimdall("resolve", "F1").stdout == "x\n"


def test_the_haid_command(heimdall: Run) -> None:
    own = heimdall("haid").stdout.strip()
    assert own == heimdall("haid", "current").stdout.strip()
    assert heimdall("haid", "spawn", "Coder").stdout == f"{own}/coder\n"
    assert heimdall("haid", "trailer").stdout == f"Heimdall-Agent: {own}\n"
    assert heimdall("haid", "get", own).stdout == "null\n"
    assert heimdall("haid", "check").returncode == 3
    assert heimdall("haid", "heartbeat").returncode == 2
    assert heimdall("haid", "register", "--role", "lead").stdout == f"{own}\n"
    assert heimdall("haid", "check").returncode == 0
    assert heimdall("haid", "heartbeat").returncode == 0
    assert "\tactive\tlead\t" in heimdall("haid", "list").stdout
    assert heimdall("haid", "revoke").returncode == 2
    assert heimdall("haid", "get", "nonsense").returncode == 2


def test_a_reader_that_goes_away_is_not_an_error_message(heimdall: Run, project: Path) -> None:
    heimdall("resolve", "set", "F1", "x" * 100_000)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([str(BIN / "heimdall-resolve"), "F1"], stdout=write, stderr=subprocess.PIPE, cwd=project)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_bytes_that_are_no_text_come_back_as_they_went_in(heimdall: Run, project: Path) -> None:
    subprocess.run([str(BIN / "heimdall-blackboard"), "set", "k", b"\xff\xfe"], cwd=project, check=True)
    out = subprocess.run([str(BIN / "heimdall-blackboard"), "get", "k"], cwd=project, capture_output=True).stdout
    assert out == b"\xff\xfe\n"


def test_a_read_only_directory_is_said_and_nothing_is_lost(heimdall: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    done = heimdall("resolve", "set", "F1", "x", HEIMDALL_PLANNING_DIR=str(tmp_path / "file"))
    assert done.returncode == 2 and "cannot" in done.stderr and "Traceback" not in done.stderr


def test_lists_and_reports_come_as_json_too(heimdall: Run) -> None:
    heimdall("resolve", "set", "F1", "a\tb")
    heimdall("blackboard", "set", "port", "5173")
    heimdall("capsule", "write", "w1", "--what", "one")
    heimdall("ledger", "log", "--role", "r", "--kind", "k", "--tokens", "5", "--source", "measured")
    heimdall("ledger", "baseline", "--role", "r", "--tokens", "10")

    def data(*words: str) -> object:
        return json.loads(heimdall(*words, "--json").stdout)

    assert data("resolve", "list") == {"F1": "a\tb"}
    assert data("blackboard", "list") == {"port": "5173"}
    assert data("capsule", "list") == ["w1"]
    assert data("ledger", "report") == {
        "roles": {"r": {"tokens": 5, "messages": 1}},
        "total": 5,
        "sources": {"measured": 5},
        "unreadable": 0,
    }
    assert data("ledger", "delta") == [{"role": "r", "baseline": 10, "measured": 5, "percent": -50}]
    assert data("claim", "check", "a") == {"clear": True, "overlaps": []}
    assert data("claim", "guard", "status") == {"pre-commit": "absent", "pre-push": "absent"}
    assert data("haid", "list") == []


def test_tokens_can_be_estimated_instead_of_declared(heimdall: Run, project: Path) -> None:
    (project / "brief.txt").write_text("hello world")
    words = ["log", "--role", "r", "--kind", "k", "--count"]
    assert heimdall("ledger", *words, "brief.txt").stdout == "logged r/k=2\n"
    assert heimdall("ledger", *words, "-", stdin="hello").stdout == "logged r/k=1\n"
    assert heimdall("ledger", *words, "none.txt").returncode == 1
    entries = [json.loads(line) for line in (project / ".planning/protocol/ledger.jsonl").read_text().splitlines()]
    assert [entry["source"] for entry in entries] == ["estimated", "estimated"]


# The reference pages...

DOCS = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_reference_has_what_help_says(heimdall: Run, name: str) -> None:
    assert f"```text\n{heimdall(name, '--help').stdout}```" in (DOCS / "heimdall-commands.md").read_text()


@pytest.mark.parametrize("name", ["setup", "hook"])
def test_the_reference_has_what_only_treadle_has(project: Path, name: str) -> None:
    told = subprocess.run([str(BIN / "treadle"), "coord", name, "--help"], capture_output=True, text=True, cwd=project)
    assert f"```text\n{told.stdout}```" in (DOCS / "heimdall-commands.md").read_text()


def test_the_reference_has_every_message_and_every_tool() -> None:
    from treadle.coordination.tools import ALL
    from treadle.wire.heimdall.messages import TYPES

    protocol, server = ((DOCS / name).read_text() for name in ("coordination-protocol.md", "ledger-mcp.md"))
    for name, schema in TYPES.items():
        (row,) = [line for line in protocol.splitlines() if line.startswith(f"| `{name}` |")]
        assert all(f"`{field}`" in row for field in schema["properties"])
    for tool in ALL:
        (row,) = [line for line in server.splitlines() if line.startswith(f"| `{tool.name}` |")]
        assert all(f"`{field}`" in row for field in tool.schema["properties"] if field != "client_identity")
