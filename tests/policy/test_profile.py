from pathlib import Path

import pytest

from treadle.events import ToolKind
from treadle.io.machine import DISK
from treadle.policy.profile import NO_RULES, Profile, as_rules
from treadle.session import Access, Decision, Mode, Rules


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


@pytest.mark.parametrize(
    ("command", "looks", "organises"),
    [
        ("ls -l", True, True),
        ("cat src/a", True, True),
        ("mv src/a src/b", False, True),
        ("make", False, False),
        ("curl example.com", False, False),
        ("cat src/out/x", False, False),
        ("cat ../beside/x", False, False),
    ],
)
def test_harmless_is_what_only_looks_or_moves_files_about_in_the_workspace(
    repo: Path, command: str, looks: bool, organises: bool
) -> None:
    judge = guard(repo, "suggest")
    assert [judge.is_harmless(command, edits=edits) for edits in (False, True)] == [looks, organises]


def test_a_look_around_where_rules_hide_files_is_not_harmless(repo: Path) -> None:
    judge = guard(repo, "suggest", deny=("Read(.env*)",))
    assert not judge.is_harmless("grep -r x .", edits=False) and judge.is_harmless("cat src/a", edits=False)


def test_without_a_mode_what_no_rule_forbids_runs(repo: Path) -> None:
    judge = guard(repo, None, deny=("Bash(rm *)",))
    assert judge(bash("make > /x/y")).verdict == "allow"
    assert judge(file("write", repo.parent / "beside" / "x")).verdict == "allow"
    assert judge(bash("make; rm x")).verdict == "deny"


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


def test_added_directories_and_named_paths_are_inside(repo: Path) -> None:
    outside = file("write", repo.parent / "beside" / "x")
    assert guard(repo)(outside).verdict == "ask"
    assert guard(repo, add=("../beside",))(outside).verdict == "allow"
    assert guard(repo, allow=(f"Write({repo.parent}/beside/**)",))(outside).verdict == "allow"
    assert guard(repo, "yolo")(outside).verdict == "allow"


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


def test_a_path_as_a_rule_allows_that_path_and_no_other(repo: Path) -> None:
    judge = guard(repo, "suggest", allow=as_rules(file("write", repo / "a[1]")))
    assert judge(file("write", repo / "a[1]")).verdict == "allow"
    assert judge(file("write", repo / "a1")).verdict == "ask"


def test_what_a_rule_cannot_say_exactly_becomes_none() -> None:
    assert as_rules(bash("rm *")) == ()
    assert as_rules(Access(tool="web_fetch", kind="network", url="http://a.example/b")) == ()


def test_the_mode_can_change_while_it_runs(repo: Path) -> None:
    judge = guard(repo, "suggest")
    judge.mode = "full-auto"
    assert judge(bash("make")).verdict == "allow"


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


def test_what_only_looks_runs_freely_where_that_is_wanted_and_its_files_are_in_sight(repo: Path) -> None:
    (repo / "a.txt").touch()
    for mode, command, verdict in (
        ("suggest", "cat a.txt", "allow"),
        ("suggest", "mkdir b", "ask"),
        ("auto-edit", "mkdir b", "allow"),
        ("auto-edit", "cat ../beside/x", "ask"),
        ("plan", "cat a.txt", "deny"),
    ):
        judge = Profile(str(repo), NO_RULES, mode, disk=DISK, looks_freely=True)  # type: ignore[arg-type]
        found = judge(bash(command))
        assert found.verdict == verdict and (verdict == "allow") == ("only looks" in found.reason), (mode, command)
        assert judge(Access(tool="bash", kind="execute", command=command, outside="x")).verdict != "allow"
    assert Profile(str(repo), NO_RULES, "suggest", disk=DISK)(bash("cat a.txt")).verdict == "ask"
    reading = Profile(str(repo), NO_RULES, "suggest", readable=(str(repo.parent / "beside"),), disk=DISK)
    assert reading.is_harmless("cat ../beside/x", edits=False) and reading.is_harmless("cat src/out/x", edits=True)
    for command, by_default in (("cat a*", True), ("cat src/o*", False)):
        assert reading.is_harmless(command, edits=False) and guard(repo).is_harmless(command, edits=False) is by_default
    assert not reading.is_harmless("cp a.txt ../beside/x", edits=True), "what may be read may not be written"
