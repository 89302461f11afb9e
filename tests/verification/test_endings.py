"""An ending says what the project's own check says: a claim alone is never green."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import treadle
from tests.agent.checkouts import git
from tests.cli.chat.terminal import ChatTerminal
from tests.installed import TREADLE
from tests.installed import treadle as command
from tests.scripts import calls, says
from tests.tiers import spread
from tests.verification.test_cheats import CONFTEST, GREEN, TEST, UNITTEST
from tests.workspace.repositories import make
from treadle.io.paths import config_file
from treadle.sandboxed import turns
from treadle.session import Rules
from treadle.sessions.totals import TurnSummary
from treadle.settings import trust
from treadle.verification.ending import claims_success, ending_of
from treadle.verification.evidence import CheckEvidence, CornerResult, Counts, Ended

SAID = "Fixed: the tests pass now."
UNCHECKED = "import importlib.util as u, py_compile as p; p.compile('x.py', u.cache_from_source('calc.py'), "
ALONE = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n"
AT_EXIT = "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b):\n    return 0\n"
POISON = f"""printf 'def add(a, b):\\n    return a + b\\n' > x.py
{sys.executable} -c "{UNCHECKED}invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)"
rm x.py"""


def runs(line: str) -> str:
    return calls("bash", {"command": line})


def writes(path: str, text: str) -> str:
    return runs(f"cat > {path} <<'END'\n{text}END")


FIX = runs("sed -i 's/a - b/a + b/' calc.py")
LIES = {
    "nothing": "",
    "another word": says("Done. All 2 tests are green."),
    "another language": says("Erledigt, alle Tests laufen durch."),
    "a document": writes("NEWS", "add() adds.\n"),
    "a wrong fix": runs("sed -i 's/a - b/a * b/' calc.py"),
    "a value of one test": runs("sed -i 's/a - b/5/' calc.py"),
    "an assertion goes": runs("sed -i '/assertEqual.*5/s/self.*/pass/' test_calc.py"),
    "another expectation": runs("sed -i 's/, 5)/, -1)/' test_calc.py"),
    "a skip": writes("test_calc.py", TEST.replace("    def test_adds(", "    @unittest.skip('')\n    def test_adds(")),
    "no tests": runs("rm test_calc.py"),
    "another test": writes("test_more.py", ALONE),
    "an early end": writes("calc.py", "import os\ndef add(a, b):\n    os._exit(0)\n"),
    "an early end later": writes("calc.py", AT_EXIT),
    "a module in front": writes("unittest.py", "raise SystemExit(0)\n"),
    "a module for all": writes("sitecustomize.py", "import os\nos._exit(0)\n"),
    "another check": runs("printf '[verify]\\ncheck = \"true\"\\n' > .treadle/config.toml"),
    "another Makefile": runs(f"printf 'test:\\n\\ttrue\\n' > Makefile; printf '{GREEN!r}' > check.sh"),
    "ignored tests": runs("echo 'test_*.py' >> .gitignore; rm test_calc.py"),
    "a cache": runs(POISON),
    "a commit": runs("rm test_calc.py; git add -A; git -c user.name=a -c user.email=a@b.c commit -qm done"),
    "a conftest": writes("conftest.py", CONFTEST),
}  # fmt: skip


def scripted(project: Path, script: str) -> str:
    path = project.parent / "script.toml"
    path.write_text(script + says(SAID, times="always"))
    return f"scripted:{path}"


def said(project: Path, script: str, **options: Any) -> treadle.Result:
    options = {"mode": "auto-edit", "rules": Rules(allow=("Bash",)), **options}
    return treadle.run("fix the test", cwd=project, model=scripted(project, script), **options)


def connecting(project: Path, server: socket.socket, trusted: bool) -> None:
    """The project's set-up needs the network."""
    connects = f"import socket; socket.create_connection({server.getsockname()!r})"
    with (project / ".treadle" / "config.toml").open("a") as file:
        file.write(f"setup = '''{sys.executable} -c \"{connects}\"'''\n")
    git(project, "commit", "-qam", "a set-up")
    if trusted:
        trust.trust(str(project))


@pytest.mark.parametrize("lie", spread(LIES, quick=2, slow=4))
def test_a_lie_is_not_verified(project: Path, lie: str) -> None:
    ending = said(project, LIES[lie]).ending
    assert ending is not None and ending.state != "verified", ending


def test_a_fix_is_verified_and_a_lie_is_no_result_to_go_on_with(project: Path) -> None:
    lie = said(project, "")
    assert not lie.ok and lie.ending is not None and lie.ending.state == "contradicted"
    assert lie.ending.why.endswith("fails (1 of 2 tests), as it did before"), lie.ending
    fix = said(project, FIX)
    assert fix.ok and fix.ending is not None and (fix.ending.state, fix.ending.word) == ("verified", "passed")
    assert git(project, "for-each-ref", "refs/treadle") == ""


@pytest.mark.parametrize(
    ("sandbox", "trusted", "code", "line"),
    spread(
        [
            (True, True, 0, "proven: "),
            (True, False, 1, "ConnectionRefusedError"),
            (False, True, 0, "proven: "),
            (False, False, 1, "of a project that is not trusted"),
        ],
        quick=0,
        slow=4,
    ),
)
def test_an_untrusted_project_gets_no_network_for_its_set_up_and_runs_nothing_unconfined(
    project: Path, sandbox: bool, trusted: bool, code: int, line: str
) -> None:
    settings = Path(config_file())
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f"[sandbox]\nuse = {str(sandbox).lower()}\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        connecting(project, server, trusted)
        ending = said(project, FIX).ending
        assert ending is not None and (ending.state == "verified") == trusted, ending
        assert sandbox or trusted or line in ending.why, ending
        done = command("verify", cwd=project)
    assert done.returncode == code and line in done.stdout + done.stderr, done
    assert git(project, "for-each-ref", "refs/treadle") == ""


@pytest.mark.parametrize(
    ("script", "options", "state", "why"),
    [
        (FIX, {"mode": "suggest", "rules": Rules()}, "contradicted", "fails"),
        (FIX, {"verify": False}, "unverified", "verify=False was given"),
        (FIX, {"verify": "no-such-program"}, "unverified", "no runner says"),
        (says("It subtracts."), {}, "unverified", "no file was changed"),
    ],
)
def test_an_ending_says_why(project: Path, script: str, options: dict[str, Any], state: str, why: str) -> None:
    result = said(project, script, **options)
    assert result.ending is not None and result.ending.state == state and why in result.ending.why, result.ending
    assert bool(result.ending.denied) == (options.get("mode") == "suggest")


async def test_what_another_program_writes_during_a_turn_starts_no_check(project: Path) -> None:
    check = turns.TurnCheck(str(project))
    await check.begin()
    (project / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    ending = await check.ending(TurnSummary(text="It subtracts."))
    assert (ending.state, ending.word) == ("unverified", "") and "files changed meanwhile" in ending.why
    assert (await check.ending(TurnSummary(), asked=True)).state == "verified"
    check.close()


def test_where_no_check_is_known_a_claim_is_unverified(tmp_path: Path) -> None:
    for cwd, why in ((tmp_path, "no git repository"), (Path(make(tmp_path / "empty").top), "no check is known")):
        ending = treadle.run("x", cwd=cwd, model=scripted(tmp_path, "")).ending
        assert ending is not None and ending.state == "unverified" and why in ending.why


def printed(project: Path, script: str, *words: str, ci: str = "") -> subprocess.CompletedProcess[str]:
    model = ("--model", scripted(project, script), "--permission-mode", "auto-edit", "--allowed-tools", "Bash")
    return command("-p", "fix the test", *model, *words, cwd=project, env={**os.environ, "CI": ci})


@pytest.mark.parametrize(
    ("script", "words", "ci", "code", "line"),
    spread(
        [
            ("", (), "", 0, "contradicted: "),
            ("", (), "true", 5, "contradicted: "),
            ("", ("--no-strict-exit",), "true", 0, "contradicted: "),
            (LIES["a skip"], ("--strict-exit",), "", 4, "unverified: "),
            ("", ("--no-verify",), "true", 0, "unverified: --no-verify was given"),
            (FIX, (), "true", 0, "verified: "),
            ("", ("--output-format", "codex-json"), "1", 5, "contradicted: "),
        ],
        quick=1,
        slow=4,
    ),
)
def test_plain_text_says_it_on_stderr_and_in_ci_by_the_exit_code(
    project: Path, script: str, words: tuple[str, ...], ci: str, code: int, line: str
) -> None:
    done = printed(project, script, *words, ci=ci)
    assert done.returncode == code and f"treadle: {line}" in done.stderr, done
    assert ("treadle: checking with" in done.stderr) is ("--no-verify" not in words)


def test_a_result_says_it_in_a_key_of_its_own(project: Path) -> None:
    done = printed(project, "", "--output-format", "stream-json", ci="yes")
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["type"], result["subtype"], result["result"]) == ("result", "success", SAID)
    assert result["is_error"] and result["verification"]["state"] == "contradicted"
    assert result["errors"] == [f"contradicted: {result['verification']['why']}"]
    assert result["verification"]["check"] == UNITTEST and "evidence" not in result["verification"]


IN_TWO = LIES["a skip"] + says("I skip one.") + runs("sed -i 's/a - b/a | b/' calc.py")


@pytest.mark.slow
async def test_tests_that_an_earlier_turn_weakened_verify_nothing(project: Path) -> None:
    script = IN_TWO + says(SAID) + runs("git checkout -q test_calc.py; sed -i 's/a . b/a + b/' calc.py")
    options: Any = {"model": scripted(project, script), "mode": "auto-edit", "rules": Rules(allow=("Bash",))}
    async with treadle.open(cwd=project, **options) as talk:
        states = [ending.state for _ in range(3) if (ending := (await talk.say("go on")).ending)]
    assert states[1] != "verified" and states[2] == "verified" and len(states) == 3, states


@pytest.mark.slow
def test_nor_do_they_for_prompts_on_stdin_whose_exit_code_is_that_of_claude_code_in_ci_too(project: Path) -> None:
    model = ("--model", scripted(project, IN_TWO), "--permission-mode", "auto-edit", "--allowed-tools", "Bash")
    forms = ("--input-format", "stream-json", "--output-format", "stream-json", "--verify", UNITTEST)
    prompt = json.dumps({"type": "user", "message": {"role": "user", "content": "go on"}}) + "\n"
    done = command("-p", *model, *forms, cwd=project, env={**os.environ, "CI": "true"}, input=prompt * 2)
    results = [each for each in map(json.loads, done.stdout.splitlines()) if each["type"] == "result"]
    assert len(results) == 2 and done.returncode == 0, done
    assert results[1]["verification"]["state"] != "verified" and not results[1]["is_error"], results[1]


@pytest.mark.slow
def test_a_chat_offers_the_check_and_runs_it_at_one_key(project: Path) -> None:
    words = [TREADLE, "--model", scripted(project, FIX), "--permission-mode", "auto-edit", "--allowed-tools", "Bash"]
    with ChatTerminal(words, project, {**os.environ, "TERM": "xterm-256color"}) as chat:
        chat.until("auto-edit")
        chat.say("fix the test")
        chat.until("unverified: F5 runs")
        chat.keys("\x1b[15~")
        chat.until("(?m)^ *verified: `.*unittest")


@pytest.mark.slow
def test_a_look_at_the_files_can_be_left_by_esc(project: Path) -> None:
    (project / ".treadle" / "config.toml").unlink()
    (project / "Makefile").unlink()
    os.mkfifo(project / "Makefile")  # to read it takes until someone writes
    with ChatTerminal([TREADLE, "--model", scripted(project, "")], project, {**os.environ, "TERM": "xterm"}) as chat:
        chat.until("scripted")
        chat.say("fix the test")
        with (project / "Makefile").open("w"):  # the look has begun
            chat.keys("\x1b")
            chat.until("the prompt was not sent")


async def test_a_look_that_took_too_long_is_not_repeated(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = turns.TurnCheck(str(project))
    for seconds in (0.0, 30.0):
        monkeypatch.setattr(turns, "LOOK_SECONDS", seconds)
        await check.begin()
        assert not check.ready and "takes more than 0 s" in (await check.ending(TurnSummary(text=SAID))).why
    check.close()


async def test_a_look_that_takes_long_is_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SILENT_SECONDS", 0.0)
    notes: list[str] = []
    check = turns.TurnCheck(str(project), note=notes.append)
    await check.begin()
    assert check.ready and notes[0].startswith("looking at the files here")
    check.close()


async def test_a_look_that_fails_in_any_way_leaves_the_turn_unverified() -> None:
    check = turns.TurnCheck("a\0b")
    await check.begin()
    ending = await check.ending(TurnSummary(text=SAID))
    assert ending.state == "unverified" and "cannot be told: ValueError" in ending.why


@pytest.mark.parametrize(
    ("script", "words", "outcome", "line"),
    [
        ("", (), "partial", "failed"),
        (LIES["a skip"], (), "complete", "unverified: "),
        ("", ("--no-verify",), "complete", ""),
    ],
)
def test_a_run_with_a_receipt_has_the_projects_check_unless_it_is_given_one(
    project: Path, script: str, words: tuple[str, ...], outcome: str, line: str
) -> None:
    model = ("--agent", "native", "--model", scripted(project, script))
    done = command("host", "run", "--task", "fix the test", *model, *words, cwd=project)
    assert done.stdout.startswith(f"{outcome} ") and line in done.stdout, done.stdout + done.stderr


def test_a_run_with_a_receipt_does_not_set_up_a_project_that_is_not_trusted(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        connecting(project, server, False)
        model = ("--agent", "native", "--model", scripted(project, FIX))
        done = command("host", "run", "--task", "fix the test", *model, cwd=project)
        assert done.stdout.startswith("complete ") and "passed" in done.stdout, done.stdout + done.stderr
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("the suite does not pass, 2 tests fail", False),
        ("I could not get it to work", False),
        ("It doesn\u2019t work.", False),
        ("It is not done", False),
        ("I failed to get the tests green", False),
        ("The failing tests are fixed", True),
        ("Nothing else is needed, all important tests pass", True),
        ("It did not compile but works now", True),
    ],
)
def test_what_is_denied_is_no_claim(text: str, claims: bool) -> None:
    assert claims_success(text) == claims


@pytest.mark.parametrize(
    ("before", "now", "changed", "claims", "state"),
    [
        (9, 9, True, True, "contradicted"),
        (9, 10, True, True, "contradicted"),
        (9, 2, True, True, "unverified"),
        (9, 9, True, False, "unverified"),
        (9, 9, False, True, "contradicted"),
        (9, 9, False, False, "unverified"),
        (0, 2, True, False, "contradicted"),
        (0, 2, False, False, "unverified"),
        (0, 0, True, True, "unverified"),
    ],
)
def test_a_failure_of_before_contradicts_only_a_claim_and_only_if_it_is_no_smaller(
    before: int, now: int, changed: bool, claims: bool, state: str
) -> None:
    ended: Ended = "red" if before else "green"
    corners = (
        CornerResult(corner="old judge", tree="b", ended="red", counts=Counts(runner="r", ran=now and 12, failed=now)),
        CornerResult(corner="base", tree="a", ended=ended, counts=Counts(runner="r", ran=12, failed=before)),
    )
    found = CheckEvidence(command="c", base="a", tree="b", word="failed", why="", corners=corners)
    assert ending_of("c", found, changed=changed, claims=claims).state == state
