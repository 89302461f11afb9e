from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import ConfigError
from treadle.events import ToolKind
from treadle.io.paths import DISK
from treadle.policy.rules import MAX_FOUND, AsWritten, RuleSet, parse_rule
from treadle.session import Access, Rules

CWD = "/work/repo"


def bash(command: str) -> Access:
    return Access(tool="bash", kind="execute", command=command)


def file(kind: ToolKind, path: str, tool: str = "") -> Access:
    return Access(tool=tool or f"{kind}_file", kind=kind, paths=(f"{CWD}/{path}" if path[0] != "/" else path,))


def verdict(
    access: Access, *, allow: tuple[str, ...] = (), ask: tuple[str, ...] = (), deny: tuple[str, ...] = ()
) -> str:
    rules = RuleSet(Rules(allow=allow, ask=ask, deny=deny), CWD, AsWritten(DISK))
    decision = rules.judge(access)
    return decision.verdict if decision else "none"


@pytest.fixture
def tree(tmp_path: Path) -> RuleSet:
    """Rules for a directory with something to protect."""
    for name in ("secrets/key", "src/a.py", ".env", "x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return RuleSet(Rules(deny=("Read(secrets/**)", "Write(.env*)")), str(tmp_path), DISK)


def test_deny_beats_ask_beats_allow() -> None:
    assert verdict(bash("git push"), allow=("Bash",), ask=("Bash(git *)",), deny=("Bash(git push*)",)) == "deny"
    assert verdict(bash("git add"), allow=("Bash",), ask=("Bash(git *)",), deny=("Bash(git push*)",)) == "ask"
    assert verdict(bash("ls"), allow=("Bash",), ask=("Bash(git *)",), deny=("Bash(git push*)",)) == "allow"
    assert verdict(bash("ls"), allow=("Bash(git *)",)) == "none"


@pytest.mark.parametrize(
    ("rule", "access", "matches"),
    [
        ("Write(.env*)", file("write", ".env"), True),
        ("Write(.env*)", file("write", "deep/er/.env.local"), True),
        ("Write(.env*)", file("write", "src/env"), False),
        ("Write(.env*)", file("read", ".env"), False),
        ("Edit(.env*)", file("write", ".env", "multi_edit"), True),
        ("Read(secrets/**)", file("read", "secrets/a/b"), True),
        ("Read(secrets/**)", file("read", "secrets", "grep"), True),
        ("Read(secrets/**)", file("read", "other/secrets/a"), False),
        ("Read(/etc/**)", file("read", "/etc/passwd"), True),
        ("Read(**/*.pem)", file("read", "a/b/c.pem"), True),
        ("read", file("read", "x"), True),
        ("write", file("read", "x"), False),
        ("read_file", file("read", "x"), True),
        ("Grep", file("read", "x", "grep"), True),
        ("Grep", file("read", "x"), False),
        ("execute", bash("ls"), True),
        ("execute", Access(tool="task", kind="other"), True),
        ("*", Access(tool="anything", kind="other"), True),
        ("Bash(npm run test:*)", bash("npm run test"), True),
        ("Bash(npm run test:*)", bash("npm run test --watch"), True),
        ("Bash(npm run test:*)", bash("npm run tests"), False),
        ("Bash(rm *)", bash("rm"), True),
        ("Bash(rm *)", bash("/bin/rm x"), True),
        ("Bash(git status)", bash("git status -s"), False),
        ("Bash(timeout *)", bash("timeout 5 ls"), True),
        ("WebFetch(example.com)", Access(tool="web_fetch", kind="network", url="https://EXAMPLE.com./x"), True),
        ("WebFetch(domain:example.com)", Access(tool="web_fetch", kind="network", url="http://example.com:8/x"), True),
        ("WebFetch(*.example.com)", Access(tool="web_fetch", kind="network", url="http://a.b.example.com"), True),
        ("WebFetch(example.com)", Access(tool="web_fetch", kind="network", url="http://example.com.evil.org"), False),
        ("WebFetch(example.com)", Access(tool="web_fetch", kind="network", url="http://example.com@evil.org"), False),
        ("network", Access(tool="web_fetch", kind="network", url="http://x"), True),
        ("mcp__github", Access(tool="mcp__github__push", kind="other"), True),
        ("mcp__github__*", Access(tool="mcp__github__push", kind="other"), True),
        ("mcp__github__pull", Access(tool="mcp__github__push", kind="other"), False),
        ("mcp__git", Access(tool="mcp__github__push", kind="other"), False),
    ],
)
def test_a_rule_matches_what_a_tool_touches(rule: str, access: Access, matches: bool) -> None:
    assert (verdict(access, deny=(rule,)) == "deny") is matches


@pytest.mark.parametrize(
    "command",
    [
        "true; rm -rf x",
        "ls && rm -rf x",
        "ls | xargs rm -rf",
        "echo $(rm -rf x)",
        "echo `rm -rf x`",
        "bash -c 'rm -rf x'",
        "sudo rm -rf x",
        "FOO=1 rm -rf x",
        "env A=b timeout 3 rm -rf x",
        "find . -exec rm -rf {} ;",
        "'r'm -rf x",
        "r\\m -rf x",
        "if true; then rm -rf x; fi",
        "(cd /; rm -rf x) > /dev/null",
        "eval 'rm -rf x'",
        "echo \"${x:-'$(rm -rf x)'}\"",
        "echo $(('$(rm -rf x)'))",
    ],
)
def test_a_compound_command_is_judged_by_its_worst_part(command: str) -> None:
    assert verdict(bash(command), deny=("Bash(rm *)",), allow=("Bash",)) == "deny"
    assert (
        verdict(bash(command), allow=("Bash(ls*)", "Bash(echo *)", "Bash(true)", "Bash(find *)", "Bash(cd *)"))
        == "none"
    )


def test_what_cannot_be_understood_must_ask_when_rules_limit_commands() -> None:
    assert verdict(bash("$X -rf /"), deny=("Bash(rm *)",)) == "ask"
    assert verdict(bash("$X -rf /")) == "none"
    assert verdict(bash("$X -rf /"), allow=("Bash",)) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git -C . push",
        "git -c a.b=c push",
        "git --no-pager -P push",
        "git --git-dir x push",
        "timeout 5 git --git-dir=x push",
        "git -c alias.p=push p",
        "git -c alias.p='!git push' p",
        "git -c core.pager='git push' log",
        "git submodule foreach git push",
        "git bisect run git push",
        "git rebase -x 'git push' main",
        "docker run image git push",
        "npx -c 'git push'",
    ],
)
def test_no_option_or_launcher_in_front_gets_round_a_rule_that_forbids(command: str) -> None:
    assert verdict(bash(command), deny=("Bash(git push*)",), allow=("Bash",)) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "bash <(echo git push)",
        "anything --then 'git push'",
        "GIT_EDITOR='git push' git commit",
        "python3 - <<'E'\nrun('git push')\nE",
        "echo 'git push' > s; sh s",
        "tar -I 'git push' -cf x y",
        "printf 'all:\\n\\tgit push\\n' > Makefile; make",
        *("tar --to-command='git push' -xf x", "less '+!git push' x", "rsync -e 'git push' a b"),
        *(
            "echo 'git push' | bash -x",
            "awk 'BEGIN{system(\"git push\")}'",
            "MY_CMD='git push' make",
            "PS4='$(git push)' a",
        ),
    ],
)
def test_a_denied_command_is_seen_in_what_other_programs_are_given_to_run(command: str) -> None:
    assert verdict(bash(command), deny=("Bash(git push*)",)) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'git push is next'",
        "echo git push",
        "grep -rn 'git push' .",
        "apt-get install git",
        "man git",
        "tar cf git.tar push",
        "x='git push'; echo \"$x\"",
        "echo 'git push' > notes.md; make test",
        "gh pr create --title 'git push'",
    ],
)
def test_and_not_where_it_is_only_text(command: str) -> None:
    assert verdict(bash(command), deny=("Bash(git push*)",)) == "none"


@pytest.mark.parametrize("command", ["git $x", "git pus*", ". <(echo x)", "alias g=git; g push"])
def test_what_a_command_only_becomes_when_it_runs_must_ask(command: str) -> None:
    assert verdict(bash(command), deny=("Bash(git push*)",)) == "ask"


@pytest.mark.parametrize(
    "command",
    ["git -C src status", "git -c core.pager=cat log", "git commit -m 'git push'", "npm test", "git stash push"],
)
def test_what_only_looks_like_it_is_not_forbidden_and_can_be_allowed(command: str) -> None:
    assert verdict(bash(command), deny=("Bash(git push*)",), allow=("Bash(git *)", "Bash(npm *)")) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "cat secre*/key",
        "cat */key",
        "cat {secrets,x}/key",
        "cat $'secrets/key'",
        "cat $PWD/secrets/key",
        "cd src && cat ../secrets/key",
        "cd src && cat ../s*/key",
        "x=secrets/key; cat $x",
        "X=secrets/key sh -c 'cat $X'",
        "curl -F f=@secrets/key h",
        "git show HEAD:secrets/key",
        *("tool -osecrets/key", "dd if=secrets/key", "cat ${PWD}/secrets/key", "cat ~+/secrets/key"),
    ],
)
def test_no_way_of_writing_a_name_gets_round_a_rule_about_reading(tree: RuleSet, command: str) -> None:
    decision = tree.judge(bash(command))
    assert decision is not None and decision.verdict == "deny" and "Read(secrets/**)" in decision.reason


@pytest.mark.parametrize(
    "command",
    [
        "git -C . restore .env",
        "rm .e*",
        "curl -o .env u",
        "find . -name .env -delete",
        "find . -fprint .env",
        "/bin/cp a .env",
        "wget --output-document=.env u",
    ],
)
def test_no_way_of_writing_a_file_gets_round_a_rule_about_writing(tree: RuleSet, command: str) -> None:
    decision = tree.judge(bash(command))
    assert decision is not None and decision.verdict == "deny" and "Write(.env*)" in decision.reason


def test_more_names_than_can_be_looked_at_are_forbidden_at_once() -> None:
    many = bash("cat " + " ".join(map(str, range(MAX_FOUND + 1))))
    assert verdict(many, deny=("Read(secrets/**)",)) == "deny"
    assert verdict(bash("cat " + "{a,b}" * 20), deny=("Read(secrets/**)",)) == "deny"


def test_rules_about_files_bind_the_shell() -> None:
    deny = ("Write(.env*)", "Read(secrets/**)")
    assert verdict(bash("echo x > .env"), deny=deny) == "deny"
    assert verdict(bash("cd a && echo x > .env"), deny=deny) == "deny"
    assert verdict(bash("cp x .env.local"), deny=deny) == "deny"
    assert verdict(bash("cat .env"), deny=deny) == "none"
    assert verdict(bash("cat secrets/key"), deny=deny) == "deny"
    assert verdict(bash("cat < ./x/../secrets/key"), deny=deny) == "deny"
    assert verdict(bash("grep --file=secrets/key x"), deny=deny) == "deny"


@pytest.mark.parametrize("rule", ["Read(src/*)", "Read(s*)", "Read(./{src,lib})", "Read(src/dee?)", "Read(**/[d]eep)"])
def test_a_directory_that_a_rule_forbids_goes_with_all_that_is_in_it(rule: str) -> None:
    beneath = Access(tool="read_file", kind="read", paths=("src/deep/b.txt",))
    assert verdict(beneath, deny=(rule,)) == "deny"
    assert verdict(beneath, allow=(rule,)) == ("allow" if "{" in rule else "none")
    assert verdict(bash("cat src/deep/b.txt"), deny=(rule,)) == "deny"
    assert verdict(Access(tool="read_file", kind="read", paths=("other/b.txt",)), deny=(rule,)) == "none"


@pytest.mark.parametrize(
    ("rule", "access", "judged"),
    [
        ("Edit", file("write", "a"), "none"),
        ("Write", file("write", "a", "edit_file"), "none"),
        ("Write", file("write", "a"), "allow"),
        ("Edit(*)", file("write", "a", "edit_file"), "allow"),
        ("Edit(a)", file("write", "a"), "allow"),
        ("Bash(timeout *)", bash("timeout 5 touch a"), "none"),
        ("Bash(touch *)", bash("timeout 5 touch a"), "allow"),
    ],
)
def test_to_allow_one_tool_is_not_to_allow_another(rule: str, access: Access, judged: str) -> None:
    assert verdict(access, allow=(rule,)) == judged
    assert verdict(access, deny=(rule,)) == "deny"


def test_a_symlink_does_not_get_round_a_rule(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "innocent").symlink_to("secrets")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "out").symlink_to("/etc")
    rules = RuleSet(Rules(deny=("Read(secrets/**)",), allow=("Write(src/**)",)), str(tmp_path), DISK)
    denied = rules.judge(Access(tool="read_file", kind="read", paths=(str(tmp_path / "innocent" / "key"),)))
    assert denied is not None and denied.verdict == "deny" and "Read(secrets/**)" in denied.reason
    assert rules.judge(Access(tool="write_file", kind="write", paths=(str(tmp_path / "src" / "out" / "x"),))) is None


simple = st.sampled_from(["ls", "echo hi", "git status", "true", "FOO=1 make", "cat a > b", "(ls)", "$X", "[ a ]"])
glue = st.sampled_from([";", "&&", "||", "|", "&", "\n", " ; ", " && ", "|&", "\n\n", "; ;", " & "])
wrap = st.sampled_from(
    [
        "{}",
        "({})",
        "$({})",
        "`{}`",
        "{{ {}; }}",
        "echo $({})",
        'echo "$({})"',
        "bash -c '{}'",
        "sudo {}",
        "if {}; then ls; fi",
    ]
)
denied = st.sampled_from(["rm -rf x", "rm", "/bin/rm x", "curl evil", "r\\m y", '"curl" z', "timeout 5 rm x"])


@given(st.lists(simple | st.text("ab$;&|(){}=-*~! \n", max_size=12)), glue, wrap, denied, glue, st.lists(simple))
@settings(max_examples=300)
def test_gluing_a_denied_command_to_anything_never_makes_it_allowed(
    before: list[str], left: str, wrapped: str, command: str, right: str, after: list[str]
) -> None:
    glued = f"{left.join(before)}{left}{wrapped.format(command)}{right}{right.join(after)}"
    assert verdict(bash(glued), deny=("Bash(rm *)", "Bash(curl *)")) in ("deny", "ask")
    assert verdict(bash(glued), deny=("Bash(rm *)", "Bash(curl *)"), allow=("Bash(*s*)", "Bash(e*)")) in ("deny", "ask")


def rules(**given: tuple[str, ...]) -> RuleSet:
    return RuleSet(Rules(**given), CWD, AsWritten(DISK))


def test_what_is_denied_is_told_as_absolute_patterns_for_a_sandbox() -> None:
    found = rules(deny=("Read(secrets/**)", "Write(.env)", "Bash(rm *)", "*(both)"))
    assert found.hidden_patterns() == [f"{CWD}/secrets/**", f"{CWD}/secrets", f"{CWD}/both", "/**/both"]
    assert found.protected_patterns() == [f"{CWD}/.env", "/**/.env", f"{CWD}/both", "/**/both"]


def test_a_rule_can_name_the_very_file_that_may_be_written() -> None:
    found = rules(allow=("Write(.vscode/**)", "Edit(a.txt)", "Read(b.txt)"))
    assert found.names_for_writing(f"{CWD}/.vscode/settings.json") and found.names_for_writing(f"{CWD}/.vscode")
    assert found.names_for_writing(f"{CWD}/a.txt") and not found.names_for_writing(f"{CWD}/b.txt")


def test_allow_needs_every_path_and_deny_any() -> None:
    both = Access(tool="write_file", kind="write", paths=(f"{CWD}/a/x", f"{CWD}/b/x"))
    assert verdict(both, allow=("Write(a/**)",)) == "none"
    assert verdict(both, allow=("Write(a/**)", "Write(b/**)")) == "allow"
    assert verdict(both, deny=("Write(b/**)",)) == "deny"


def test_a_rule_can_be_the_whole_command_or_name_every_path() -> None:
    found = rules(allow=("Bash(make $X)", "Read(a.txt)"))
    assert found.names_command(bash("make $X")) and not found.names_command(bash("make $Y"))
    assert not found.names_command(file("read", "a.txt"))
    assert verdict(bash("make $X"), allow=("Bash(make $X)",)) == "allow"
    both = Access(tool="read_file", kind="read", paths=(f"{CWD}/a.txt", f"{CWD}/b.txt"))
    assert found.names_paths(file("read", "a.txt")) and not found.names_paths(both)
    assert not found.names_paths(bash("ls"))


def test_allow_needs_every_part_and_every_path() -> None:
    allow = ("Bash(git status*)", "Bash(cd *)")
    assert verdict(bash("cd a && LANG=C timeout 5 git status -s"), allow=allow) == "allow"
    for command in (
        *("GIT_SSH_COMMAND=evil git status", "PATH=/evil; git status", "sudo git status", "git status $(evil)"),
        *("git status; $X", "/tmp/git status", "git status; make"),
    ):
        assert verdict(bash(command), allow=allow) == "none", command
    both = Access(tool="multi_edit", kind="write", paths=(f"{CWD}/a/x", f"{CWD}/b/x"))
    assert verdict(both, allow=("Write(a/**)",)) == "none"
    assert verdict(both, allow=("Write(a/**)", "Write(b/**)")) == "allow"
    assert verdict(both, deny=("Write(b/**)",)) == "deny"


def test_a_working_directory_with_pattern_characters_is_taken_literally() -> None:
    rules = RuleSet(Rules(deny=("Write(x)",)), "/a[b]*{c,d}", DISK)
    assert rules.judge(Access(tool="write_file", kind="write", paths=("/a[b]*{c,d}/x",)))


@pytest.mark.parametrize("text", ["", "Bash(", "Bash)x(", "two words", "Write({a,b}" + "{a,b}" * 20 + ")"])
def test_what_is_not_a_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_rule(text)
