"""The guard of a session: its mode, its rules, what only looks, and files that other programs obey."""

from pathlib import Path
from typing import cast

import pytest

from treadle.errors import ConfigError
from treadle.events import ToolKind
from treadle.io.paths import DISK
from treadle.policy.rules import MATRIX, NO_RULES, Profile, as_rules, stricter
from treadle.session import Access, Decision, Mode, Rules, parse_mode


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / "src").mkdir(parents=True)
    (tmp_path / "beside").mkdir()
    (tmp_path / "repo" / "src" / "out").symlink_to(tmp_path / "beside")
    return tmp_path / "repo"


def guard(repo: Path, mode: Mode | None = "full-auto", add: tuple[str, ...] = (), **rules: tuple[str, ...]) -> Profile:
    return Profile(str(repo), Rules(**rules), mode, add, disk=DISK)


def file(kind: ToolKind, path: Path) -> Access:
    return Access(tool=f"{kind}_file", kind=kind, paths=(str(path),))


def bash(command: str) -> Access:
    return Access(tool="bash", kind="execute", command=command)


def test_the_mode_decides_where_no_rule_does(repo: Path) -> None:
    judge = guard(repo, "suggest", allow=("Bash(ls*)",))
    assert judge(bash("make")).reason == "bash (execute) requires approval in suggest mode"
    assert judge(bash("ls -l")).verdict == "allow"
    assert judge(file("read", repo / "a")).verdict == "allow"
    assert judge(file("write", repo / "a")).verdict == "ask"


def test_what_is_denied_is_denied_in_yolo_too_and_nothing_else_is(repo: Path) -> None:
    judge = guard(repo, "yolo", deny=("Bash(rm *)", "Write(.env)"), ask=("Bash(git push*)",), allow=("Bash(ls)",))
    assert judge(bash("make && rm x")).verdict == "deny"
    assert judge(bash("echo x > .env")).verdict == "deny" and judge(file("write", repo / ".env")).verdict == "deny"
    assert judge(bash("git push")).verdict == "allow" and judge(file("write", repo / "a")).verdict == "allow"
    assert judge(bash("echo 'unclosed")).verdict == "ask"  # it is unknown whether it removes anything
    assert guard(repo, "yolo", ask=("Bash(git push*)",))(bash("echo 'unclosed")).verdict == "allow"


def test_yolo_asks_nothing_but_a_further_guard_binds(repo: Path) -> None:
    def claims(access: Access) -> Decision:
        return Decision(verdict="deny" if "held" in str(access.paths) else "allow", by="claim")

    judge = Profile(str(repo), Rules(ask=("Bash",)), "yolo", extra=claims, disk=DISK)
    assert judge(bash("rm x")).verdict == "allow"
    assert judge(file("write", repo / "held")).by == "claim"
    assert judge(bash("echo > held")).by == "claim"


def test_plan_mode_changes_nothing_whatever_is_allowed(repo: Path) -> None:
    judge = guard(repo, "plan", allow=("Write", "Bash"))
    assert judge(file("write", repo / "a")).verdict == "deny"
    assert judge(bash("make")).verdict == "deny"
    assert judge(file("read", repo / "a")).verdict == "allow"


@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("path", ["../beside/x", "src/../../beside/x", "src/out/x", "../repository/x"])
def test_a_path_outside_needs_permission_however_it_is_written(repo: Path, kind: ToolKind, path: str) -> None:
    decision = guard(repo, allow=("Read", "Write"))(file(kind, repo / path))
    assert decision.verdict == "ask"
    assert "outside the working directory" in decision.reason


def test_what_an_unknown_tool_names_to_be_written_is_judged_as_a_write_and_an_answer_is_not(repo: Path) -> None:
    judge = guard(repo, "yolo", deny=("Write(src/**)",))
    for name, verdict in (("reformat", "deny"), ("get_symbols", "allow"), ("give_answer", "allow")):
        args = {"files": [{"pathInProject": str(repo / "src" / "a")}]}
        assert judge(Access(tool=f"mcp__ide__{name}", kind="other", args=args)).verdict == verdict


def test_a_redirection_is_judged_as_a_write(repo: Path) -> None:
    judge = guard(repo, "suggest", allow=("Bash(echo *)",), deny=("Write(.env)",))
    assert judge(bash("echo a")).verdict == "allow"
    assert judge(bash("echo a > b")).reason == "bash (write) requires approval in suggest mode"
    assert judge(bash("make > .env")).verdict == "deny"
    judge = guard(repo, "auto-edit", allow=("Bash(echo *)",))
    assert judge(bash("echo a > b")).verdict == "allow"
    assert judge(bash("echo a > ../b")).verdict == "ask"
    assert judge(bash("echo a > /dev/null")).verdict == "allow"
    assert guard(repo, "full-auto")(bash("make > ~/x")).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        *("cd src; echo a > ../top.txt", "echo x > /tmp/y", "make > ~/x", "cat > /tmp/a <<E\nx\nE", "echo $X >> $Y"),
        *("echo x > .git/hooks/post-commit", "tee ../b < a", "cp a ../b 2> ../log", "f() { x > /y; }; f"),
    ],
)
def test_what_a_confined_command_seems_to_write_does_not_matter(repo: Path, command: str) -> None:
    judge = Profile(str(repo), NO_RULES, "full-auto", confined=lambda: True, disk=DISK)
    assert judge(bash(command)).verdict == "allow"
    assert judge(Access(tool="bash", kind="execute", command=command, outside="the network")).verdict == "ask"
    held = Profile(str(repo), Rules(deny=("Write",)), "full-auto", confined=lambda: True, disk=DISK)
    assert held(bash("echo x > /tmp/y")).verdict == "deny"
    seen = Profile(str(repo), Rules(allow=("Bash(echo *)",)), "suggest", confined=lambda: True, disk=DISK)
    assert seen(bash("echo x > y")).verdict == "ask"


TESTS = "python3 -m pytest"
ORDINARY = (
    *("{}", "{} -q", "{} tests/test_a.py -k name", "{} | tail -5", "{} 2>&1 | tail -5", "cd HERE && {}", "cd HERE; {}"),
    *("cd HERE && {} -q 2>&1 | tail -20", "cd src && {}", "(cd HERE && {} -q)", "{} > /dev/null", "{} 2>/dev/null"),
    *("{} &> /dev/null", "{} -q 2>&1 | head -50", "{} | grep -i failed", "{} 2>&1 | grep -E 'passed|failed' | tail"),
    *("{}; echo $?", '{}; echo "exit: $?"', "{} && echo ok", "{} || true", "timeout 60 {} -q", "time {}", "{} | wc -l"),
    *("{} --durations=5 | sort | uniq -c", "ls && {}", "CI=1 {}", "PYTHONDONTWRITEBYTECODE=1 {}", "{} | sed -n '1,9p'"),
    *("set -o pipefail; {} 2>&1 | tail -5", "{} -q < /dev/null", "for i in 1 2 3; do {} -q; done", "bash -c '{} -q'"),
    *("pwd && {} -q", "{} -q 2>&1 | cat", "if {} -q; then echo good; else echo bad; fi", "{} -q\necho done"),
)


@pytest.mark.parametrize("command", ORDINARY)
def test_a_rule_for_tests_and_parts_that_only_look_combine(repo: Path, command: str) -> None:
    judge = guard(repo, "suggest", allow=(f"Bash({TESTS}*)",))
    assert judge(bash(command.format(TESTS).replace("HERE", str(repo)))).verdict == "allow"


@pytest.mark.parametrize(
    ("command", "rule", "wide"),
    [
        *(("(ls a)", "Bash(ls:*)", True), ("bash -c 'ls a'", "Bash(ls:*)", True), ("ls a &", "Bash(ls:*)", True)),
        *(("ls a && ls b", "Bash(ls:*)", False), ("(ls a)", "Bash", False), ("(ls a)", "Bash((ls a))", False)),
    ],
)
def test_what_only_its_parts_allow_is_told_apart(repo: Path, command: str, rule: str, wide: bool) -> None:
    assert guard(repo, "suggest", allow=(rule,)).rules.by_parts(bash(command)) is wide


@pytest.mark.parametrize(
    "command",
    [
        *("{} | tee x", "cd /etc && {}", "cd .. && {}", "cd src/../.. && {}", "{} | sh", "{} > x", "{}; rm x"),
        *("{} | tail -5 /etc/passwd", "{} $(rm x)", "PATH=. {}", "{} | xargs rm", "{}; cat ~/.ssh/id", "cd src && ls"),
        *("echo $HOME; {}", "{}; echo `rm x`", "{}; sed -n '1,20w x' y", "sed -i s/a/b/ x && {}", "cd src/out && {}"),
        *("{}; set -- x", "{} | sort -o x", "{}; echo \u202edaer", "{}; cat *", "echo $?"),
    ],
)
def test_but_not_with_parts_that_do_more_or_look_elsewhere(repo: Path, command: str) -> None:
    assert guard(repo, "suggest", allow=(f"Bash({TESTS}*)",))(bash(command.format(TESTS))).verdict == "ask"


def test_what_a_person_allowed_for_the_session_is_not_asked_again(repo: Path) -> None:
    judge = guard(repo, "suggest", deny=("Bash(rm *)",))
    judge.remember(bash("make test"))
    assert judge(bash("make test")).by == "person"
    assert judge(bash("make test; make install")).verdict == "ask"
    judge.remember(bash("rm x"))
    assert judge(bash("rm x")).verdict == "deny"
    judge.remember(file("write", repo / "a[1]"))
    assert judge(file("write", repo / "a[1]")).verdict == "allow"
    assert judge(file("write", repo / "b")).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    ["make test", "cd a && make test", "echo a > b; make", "f() { make; }; f", ' echo "$(date)" >> "/tmp/x y"'],
)
def test_a_command_as_a_rule_allows_that_command_and_no_other(repo: Path, command: str) -> None:
    judge = guard(repo, "suggest", allow=as_rules(bash(command)))
    assert judge(bash(command)).verdict == "allow"
    for other in (f"{command}; make install", f"{command} install", f"sudo {command}", f"{command} > c"):
        assert judge(bash(other)).verdict == "ask", other
    assert guard(repo, "plan", allow=as_rules(bash(command)))(bash(command)).verdict == "deny"


def test_a_command_as_a_rule_gives_way_to_one_that_forbids_a_part_of_it(repo: Path) -> None:
    command = bash("make; echo a > .env")
    assert guard(repo, "suggest", allow=as_rules(command), deny=("Write(.env)",))(command).verdict == "deny"
    assert guard(repo, "suggest", allow=as_rules(command), ask=("Bash(make)",))(command).verdict == "ask"


def test_what_a_rule_cannot_say_exactly_becomes_none() -> None:
    assert as_rules(bash("rm *")) == ()
    assert as_rules(Access(tool="web_fetch", kind="network", url="http://a.example/b")) == ()


def test_what_may_not_be_read_is_hidden_from_tools_that_look_at_many_files(repo: Path) -> None:
    judge = guard(repo, deny=("Read(secrets/**)", "Read(*.pem)", "Write(src/**)"), ask=("Grep(private)",))
    assert [judge.hides(str(repo / name)) for name in ("secrets/a", "x/y.pem", "private/z", "src/a.py")] == [
        True,
        True,
        True,
        False,
    ]
    judge.mode = "yolo"
    assert judge.hides(str(repo / "secrets/a")) and not judge.hides(str(repo / "private/z"))


def test_without_a_mode_what_treadle_keeps_for_itself_is_denied_and_left_out_of_searches(tmp_path: Path) -> None:
    """An order's workspace and the kept output of its tools are in there too, and those are its own."""
    state = tmp_path / "state"
    workspace, outputs = state / "host" / "run" / "workspace", state / "sessions" / "s" / "outputs"
    (state / "keys").mkdir(parents=True)
    workspace.mkdir(parents=True)
    (workspace / "way").symlink_to(state / "keys")
    guard = Profile(str(workspace), mode=None, readable=[str(outputs)], private=[str(state)], disk=DISK)

    def verdict(path: Path) -> str:
        return guard(Access(tool="read_file", kind="read", paths=(str(path),))).verdict

    assert verdict(state / "keys" / "k") == "deny" == verdict(state) == verdict(workspace / "way" / "k")
    assert verdict(workspace / "a") == "allow" == verdict(outputs / "1") == verdict(tmp_path / "else")
    assert guard.hides(str(state / "keys" / "k")) and not guard.hides(str(workspace / "a"))
    named = Profile(str(workspace), Rules(allow=(f"Read({state}/keys/**)",)), None, private=[str(state)], disk=DISK)
    assert named(Access(tool="read_file", kind="read", paths=(str(state / "keys" / "k"),))).verdict == "allow"


@pytest.mark.parametrize(
    ("mode", "rules", "url", "verdict"),
    [
        ("full-auto", {}, "https://far.example", "ask"),
        (None, {}, "https://far.example", "deny"),
        ("full-auto", {}, "https://near.example", "allow"),
        ("full-auto", {"allow": ("WebFetch",)}, "https://far.example", "allow"),
        ("plan", {}, "https://near.example", "allow"),
    ],
)
def test_an_address_that_is_not_reached_is_asked_about_or_denied_where_no_one_can_be_asked(
    repo: Path, mode: Mode | None, rules: dict[str, tuple[str, ...]], url: str, verdict: str
) -> None:
    def unreachable(asked: str) -> str:
        return "it is far" if "far" in asked else ""

    judge = Profile(str(repo), Rules(**rules), mode, disk=DISK, unreachable=unreachable)
    found = judge(Access(tool="WebFetch", kind="network", url=url))
    assert (found.verdict, found.reason == "it is far") == (verdict, verdict in ("ask", "deny"))


def test_what_git_runs_by_a_repositorys_own_word_is_asked_about_though_git_is_allowed(repo: Path) -> None:
    asked: list[str] = []

    def configured(directory: str) -> str:
        asked.append(directory)
        return "a pager of its own" if directory.endswith("/src") else ""

    judge = Profile(str(repo), Rules(allow=("Bash(git *)", "Bash(cd *)")), "suggest", disk=DISK, configured=configured)
    found = judge(bash("cd src && git diff"))
    assert (found.verdict, found.reason) == ("ask", "a pager of its own") and f"{repo}/src" in asked
    asked.clear()
    assert judge(bash("git diff")).verdict == "allow" and asked == [f"{repo}/"]
    asked.clear()
    plain = Profile(str(repo), Rules(allow=("Bash",)), "suggest", disk=DISK, configured=configured)
    for command in ("echo git", "ls"):
        assert plain(bash(command)).verdict == "allow" and asked == []


@pytest.mark.parametrize(
    ("mode", "contained", "outside", "reason"),
    [
        ("auto-edit", True, "", "it runs in the sandbox, without the network"),
        ("auto-edit", True, "the network", "to run outside of the sandbox: the network"),
        ("auto-edit", False, "", "bash (execute) requires approval in auto-edit mode"),
        ("suggest", True, "", "bash (execute) requires approval in suggest mode"),
        ("full-auto", True, "the network", "to run outside of the sandbox: the network"),
    ],
)
def test_a_sandbox_answers_for_commands_where_edits_are_allowed_but_not_for_what_leaves_it(
    repo: Path, mode: Mode, contained: bool, outside: str, reason: str
) -> None:
    judge = Profile(str(repo), NO_RULES, mode, contained=lambda: contained, disk=DISK)
    access = Access(tool="bash", kind="execute", command="make", outside=outside)
    found = judge(access)
    assert found.verdict == ("allow" if reason.startswith("it runs") else "ask")
    assert reason in found.reason or "requires approval" in found.reason and outside
    assert judge(Access(tool="run", kind="other")).verdict == ("allow" if mode == "full-auto" else "ask")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("suggest", "suggest"),
        ("default", "suggest"),
        ("acceptEdits", "auto-edit"),
        ("bypassPermissions", "yolo"),
        ("plan", "plan"),
        ("FULL-AUTO", "full-auto"),
    ],
)
def test_other_agents_names_for_modes_are_understood(name: str, mode: str) -> None:
    assert parse_mode(name) == mode


def test_an_unknown_mode_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="auto-edit"):
        parse_mode("reckless")


def test_the_stricter_mode_allows_nothing_the_other_forbids() -> None:
    order = {"allow": 0, "ask": 1, "deny": 2}
    for a in MATRIX:
        for b in MATRIX:
            kept = stricter(a, b)
            assert kept is not None
            for kind in ("read", "network", "write", "execute"):
                assert order[MATRIX[kept][kind]] == max(order[MATRIX[a][kind]], order[MATRIX[b][kind]])
    assert stricter(None, "yolo") == "yolo"
    assert stricter(None, None) is None


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    (place / ".git" / "hooks").mkdir(parents=True)
    (place / "a.txt").write_text("x")
    (place / "link").symlink_to("/etc/passwd")
    return place


def verdict(work: Path, command: str, mode: Mode = "suggest", rules: Rules | None = None) -> str:
    guard = Profile(str(work), rules or Rules(), mode, disk=DISK, looks_freely=True)
    return guard(Access(tool="bash", kind="execute", command=command)).verdict


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls -la",
        "pwd",
        "cat a.txt | head",
        "grep -r x . | head -3",
        "find . -name '*.txt'",
        "wc -l a.txt",
        "uniq -c a.txt",
        "egrep x a.txt",
        "fgrep -n x a.txt",
        "date +%s",
        "sort -u a.txt",
        "echo hi",
    ],
)
def test_what_only_reads_in_the_workspace_runs_without_a_question(work: Path, command: str) -> None:
    assert verdict(work, command) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        *("cat /etc/passwd", "cat ~/x", "grep x ../y", "find / -name x", "cat < /etc/passwd", "cd /etc && cat passwd"),
        *("ls -R", "ls -aL", "ls --recursive", "ls --dereference", "egrep -R x .", "fgrep -f/etc/x y", "date --file=x"),
        *("cat link", "cat *", "grep -R x .", "rg -L x", "grep -f/etc/shadow x", "wc --files0-from=list"),
        *(
            "echo hi > x",
            "find . -delete",
            "find . -exec rm {} +",
            "sort -o x a.txt",
            "uniq a.txt b.txt",
            "date -s now",
        ),
        *("echo $(rm x)", "cat $FILE", "FOO=1 ls", "./ls", "ls; rm x", "xargs cat", "env cat a.txt", "git status"),
        *("mkdir made", "touch made", "rm a.txt", "python3 -c 1", "curl http://x"),
        *("echo \u202edaer\u202c", "echo \x1b[2J", "echo a\u200bb", "cat a.txt \r", "echo \x9b1m", "echo a\u00a0b"),
    ],
)
def test_everything_else_is_asked_about(work: Path, command: str) -> None:
    assert verdict(work, command) == "ask"


def test_a_file_that_a_rule_hides_is_not_read_around(work: Path) -> None:
    hiding = Rules(deny=("Read(.env)",))
    assert verdict(work, "cat .env", rules=hiding) == "deny"
    assert verdict(work, "grep -r x .", rules=hiding) == "ask"
    assert verdict(work, "cat a.txt", rules=hiding) == "allow"


def test_a_redirection_to_one_is_a_question_too() -> None:
    guard = Profile("/w", mode="full-auto", disk=DISK)
    command = Access(tool="bash", kind="execute", command="echo x > .git/hooks/post-commit")
    assert guard(command).verdict == "ask"


@pytest.mark.parametrize("path", [".git/config", "sub/.vscode/tasks.json", "AGENTS.md", "x.code-workspace"])
def test_writing_what_other_programs_obey_is_a_question_unless_a_rule_names_it(path: str) -> None:
    write = Access(tool="write_file", kind="write", paths=(f"/w/{path}",))
    for mode, rules, verdict in (
        ("auto-edit", Rules(), "ask"),
        ("full-auto", Rules(allow=("Write",)), "ask"),
        ("full-auto", Rules(allow=(f"Write({path})",)), "allow"),
        ("yolo", Rules(), "allow"),
    ):
        assert Profile("/w", rules, cast(Mode, mode), disk=DISK)(write).verdict == verdict, mode


def test_where_edits_are_allowed_a_command_may_make_files_here_and_nothing_else(work: Path) -> None:
    for command in ("mkdir -p made", "mv a.txt b", "cp a.txt b", "ls && touch x"):
        assert verdict(work, command, "auto-edit") == "allow", command
    for command in (
        *("cp /etc/passwd x", "mv a.txt /tmp/x", "mkdir ../x", "touch .git/hooks/pre-commit", "rm a.txt"),
        "cp a.txt $HOME",
    ):
        assert verdict(work, command, "auto-edit") == "ask", command
