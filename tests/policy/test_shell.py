"""What the shell would run, checked by example and against a real bash."""

import contextlib
import itertools
import os
import random
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import need
from treadle.policy import shell
from treadle.policy.shell import read

RUNS = [
    ("git status", ["git status"]),
    ("a; b && c || d | e & f", ["a", "b", "c", "d", "e", "f"]),
    ("a\nb", ["a", "b"]),
    ("a \\\n b", ["a b"]),
    ("(a; b) && { c; }", ["a", "b", "c"]),
    ("echo $(rm x) `rm y`", ["rm x", "rm y", "echo $(rm x) `rm y`"]),
    ('echo "$(rm x)"', ["rm x", "echo $(rm x)"]),
    ("echo '$(rm x)'", ["echo $(rm x)"]),
    ("r\\m 'a b' \"c\"", ["rm a b c"]),
    ("cat <(rm x)", ["rm x", "cat <(rm x)"]),
    ("FOO=1 BAR=2 make", ["make"]),
    ("PATH=/evil; ls", ["PATH=/evil", "ls"]),
    ("if a; then b; else c; fi", ["a", "b", "c"]),
    ("while ! a; do b; done > /dev/null", ["a", "b"]),
    ("for x in $(a); do b $x; done", ["a", "b $x"]),
    ("time -p a", ["a", "time -p a"]),
    ("f() { rm x; }; f", ["rm x", "f"]),
    ("case a in a) rm x;; esac", ["rm x"]),
    ("cat <<E\n$(rm x)\nE", ["rm x", "cat"]),
    ("$'\\x72m' x", ["rm x"]),
    ("((x=1)); [ -f a ] && [[ -n b ]] && echo $((1+1)) ${x:-y}", ["echo $((1+1)) ${x:-y}"]),
    ("a=(1 2); echo ${a[@]}", ["a=(1 2)", "echo ${a[@]}"]),
    ("a > f b c", ["a b c"]),
    ("a 2>&1 -l", ["a -l"]),
    ("cat <<E -n\nx\nE", ["cat -n"]),
    ("> f rm x", ["rm x"]),
    ("for i in 1 2; do echo $i; done", ["echo $i"]),
    ("if true; then echo a; elif b; then c; fi", ["true", "echo a", "b", "c"]),
    ('echo $"x" "a\\"b" a\\ b', ['echo x a"b a b']),
    ("a # b; c", ["a"]),
    ("echo a#b", ["echo a#b"]),
    ("cat <<'E'\n$(rm x)\nE\nls", ["cat", "ls"]),
    ("find . -name x -exec rm {} + -print", ["rm {}", "find . -name x -exec rm {} + -print"]),
    ("sudo -u bob rm x", ["rm x", "sudo -u bob rm x"]),
    ("eval 'rm x'", ["rm x", "eval rm x"]),
    ("a 2>&1 >/dev/null", ["a"]),
    ("cat <<E\n`rm x`\nE", ["rm x", "cat"]),
    ("cat <<\\E\n`rm x`\nE", ["cat"]),
    ("cat <<< `rm x`", ["rm x", "cat"]),
    ("[[ a == $(rm x) ]]", ["rm x"]),
    ("declare A=$(rm x)", ["rm x", "declare A=$(rm x)"]),
    ("A=$(rm x) B=2", ["rm x", "A=$(rm x) B=2"]),
    ("$'\\x72\\155' $'\\u00e9'", ["rm \u00e9"]),
]


@pytest.mark.parametrize(("command", "expected"), RUNS)
def test_every_simple_command_is_found(command: str, expected: list[str]) -> None:
    script = read(command)
    assert [part.text for part in script.parts] == expected
    assert script.understood, script.why


@pytest.mark.parametrize(
    ("command", "inner"),
    [
        ("env -i FOO=1 rm x", "rm x"),
        ("timeout -k 5 10 rm x", "rm x"),
        ("nice -n 5 nohup rm x", "rm x"),
        ("xargs -0 -n1 rm", "rm ..."),
        ("bash -c 'rm x'", "rm x"),
        ("sh -ec 'cd a; rm x' name", "rm x"),
        ("bash -c \"bash -c 'rm x'\"", "rm x"),
    ],
)
def test_a_harmless_wrapper_is_judged_by_what_it_runs(command: str, inner: str) -> None:
    script = read(command)
    assert inner in [part.text for part in script.parts if not part.wrapper]
    assert command.split()[0] in [part.name for part in script.parts if part.wrapper]
    assert script.understood, script.why


@pytest.mark.parametrize(
    "command",
    [
        "$CMD x",
        "${x:-rm} y",
        "/bin/r? x",
        "{rm,-rf,x}",
        "echo 'open",
        'echo "open',
        "echo $(open",
        "(open",
        "a)",
        "echo rm x | bash",
        'bash -c "$X"',
        "bash --rcfile f -c 'ls'",
        'eval "$X"',
        "env -S 'rm x'",
        "xargs --what rm",
        "parallel rm",
        "ssh host rm x",
        "echo > $X",
        "cd $X && ls",
        "cat <<E\nno end",
        "a 3<> b",
        "a" * 70_000,
        "(" * 5000,
        "$(" * 5000 + "rm x" + ")" * 5000,
        *("a <<E\nx ` y\nE\n", "[[ a[$(b)] == c ]]", "(( a[$(b)] ))", "( a ) > f b", "esac", "in a", "for", "f() "),
    ],
)
def test_what_cannot_be_followed_is_not_understood(command: str) -> None:
    script = read(command)
    assert not script.understood
    assert script.why


@pytest.mark.parametrize(
    ("command", "writes"),
    [
        ("a > b", ["b"]),
        ("a >> b 2> c", ["b", "c"]),
        ("a &> b", ["b"]),
        ("a >| b", ["b"]),
        ("a >& b", ["b"]),
        ("a >&2 2>&1 2>&-", []),
        ("a > /dev/null 2>/dev/stderr", []),
        ("> 'b c'", ["b c"]),
        ("(a; b) > c", ["c"]),
        ("a | tee -a b c", ["b", "c"]),
        ("cd sub && a > b", ["b", "sub/b"]),
        ("cd /x && a > b", ["b", "/x/b"]),
        ("cd sub && a > ~/b", ["~/b"]),
        ("mkdir d && cd d && a > b && cd ..", ["b", "d/b"]),
        ("cd d/e && a > b && cd ../..", ["b", "d/e/b"]),
        ("cd d && a 'x y' | tail > b && cd .. && c > e", ["e", "d/e", "b", "d/b"]),
        ("cd d; a > b; cd ..", ["b", "d/b", "../b", "d/../b"]),
        ("cd d && false || true && cd .. && a > b", ["b", "d/b", "../b", "d/../b"]),
        ("cd .. && a > b", ["b", "../b"]),
        ("cd d && cd ../.. && a > b", ["b", "d/b", "../b"]),
        ("cd d # && a\n cd .. && a > b", ["b", "d/b", "../b", "d/../b"]),
        ("bash -c 'a > b'", ["b"]),
        ("echo '>' b", []),
    ],
)
def test_a_redirection_is_a_write(command: str, writes: list[str]) -> None:
    assert list(read(command).writes) == writes


STEP = st.sampled_from(["cd a", "cd ..", "cd a/b", "cd missing", "cd ../a", "true", "false", "! cd a", "cd ."])
BETWEEN = st.sampled_from([" && ", " && ", " && ", " || ", "; ", " | ", "\n", " & ", " && ( ", " # && "])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(STEP, BETWEEN), min_size=1, max_size=5))
def test_a_script_writes_only_in_directories_that_were_read_from_it(
    tmp_path: Path, steps: list[tuple[str, str]]
) -> None:
    top = tmp_path / "top" / "work"
    (top / "a" / "b").mkdir(parents=True, exist_ok=True)
    log = tmp_path / "log"
    log.write_text("")
    command = "".join(step + between + f"pwd >> {log}" + between for step, between in steps) + "true"
    subprocess.run(["bash", "-c", command], cwd=top, stderr=subprocess.DEVNULL, timeout=60)
    found = read(command)
    known = {os.path.normpath(top / base) for base in found.bases}
    assert not found.understood or set(log.read_text().split()) <= known, (command, found.bases)


CONTEXTS = [
    *(
        "{}",
        "true; {}",
        "true\n{}",
        "true # x\n{}",
        "false || {}",
        "true && {}",
        "echo a | {}",
        "{} | cat",
        "{} & wait",
    ),
    *(
        "( {} )",
        "{{ {}; }}",
        "echo $({})",
        'echo "$({})"',
        "echo a$( {} )b",
        "x=$({})",
        "cat <({})",
        "cat <<E\n$({})\nE",
    ),
    *("if {}; then true; fi", "if true; then {}; fi", "for i in 1; do {}; done", "for i in $({}); do true; done"),
    *("while {}; do break; done", "until {}; do break; done", "! {}", "time {}", "time -p {}", "[[ -n $({}) ]]"),
    *(
        "case a in a) {};; esac",
        "f() {{ {}; }}; f",
        "function f {{ {}; }}; f",
        "echo ${{x:-$({})}}",
        "echo $(( $({}) + 1 ))",
    ),
    *(
        "A=1 {}",
        "env B=2 {}",
        "env -i PATH=$PATH MARK=$MARK {}",
        "timeout 5 {}",
        "nice -n 1 {}",
        "command {}",
        "exec {}",
    ),
    *(
        "xargs {} < /dev/null",
        "find . -maxdepth 0 -exec {} \\;",
        "echo x > $({})",
        "coproc {}\nwait",
        "{} > out",
        "2> err {}",
    ),
]
QUOTED = [
    "eval {}",
    "bash -c {}",
    "sh -ec {}",
    "trap {} EXIT",
    "echo {} | bash",
    "x={}; $x",
    "bash <<< {}",
    "eval eval {}",
]
NOISE = st.sampled_from(
    [
        *";&|(){}$`\"'\\#<>=!*\n\t ,-",
        "&&",
        "||",
        "$(",
        "))",
        "<<E",
        "\nE\n",
        "$'",
        "${",
        ";;",
        "if",
        "then",
        "fi",
        "do",
        "echo",
    ]
)


@st.composite
def commands(draw: st.DrawFn) -> str:
    """The forbidden program inside other constructs, mostly in ways that run it, with some random noise."""
    command = draw(st.sampled_from(["forbidden x", "'forbid'den x", "forb\\idden", "./bin/forbidden"]))
    for _ in range(draw(st.integers(1, 3))):
        context = draw(st.sampled_from([*CONTEXTS, *QUOTED, "`"]))
        if context == "`":
            command = "echo `" + command.replace("\\", "\\\\").replace("`", "\\`") + "`"
        else:
            command = context.format(shlex.quote(command) if context in QUOTED else command)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(command)))
        command = command[:place] + draw(NOISE) + command[place:]
    return command


NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def cage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with very few programs, one of which leaves a mark when it runs."""
    cage = tmp_path_factory.mktemp("cage")
    (cage / "bin").mkdir()
    for name in ("bash", "sh", "env", "timeout", "nice", "xargs", "find", "cat", "echo", "true"):
        (cage / "bin" / name).symlink_to(need(name))
    return cage


def runs_it(cage: Path, command: str, patience: float) -> bool:
    mark = cage / f"mark-{next(NUMBERS)}"  # an earlier one may still write its own mark in the background
    forbidden = cage / "bin" / "forbidden"
    forbidden.write_text("#!/bin/sh\n: > $MARK\n")  # an earlier one may have overwritten it
    forbidden.chmod(0o755)
    process = subprocess.Popen(
        [cage / "bin" / "bash", "-c", command],
        cwd=cage,
        env={"MARK": str(mark), "PATH": str(cage / "bin")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return mark.exists()


@pytest.mark.slow
@given(commands())
@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_a_real_bash_runs_is_found_or_doubted(cage: Path, command: str) -> None:
    if runs_it(cage, command, 5):  # some wait for ever for input that the noise made them read
        script = read(command)
        assert not script.understood or "forbidden" in [part.name for part in script.parts], script


PLAIN_WORD = st.sampled_from(
    "cp git a b.c -x --y=z in do done if fi for x=1 .. - : env sudo xargs sh -c time [ export".split()
)


@given(st.lists(PLAIN_WORD | st.from_regex(r"[A-Za-z0-9_./:,@+=-]{1,6}", fullmatch=True), min_size=1, max_size=6))
def test_a_command_of_plain_words_is_read_as_the_grammar_reads_it(words: list[str]) -> None:
    command, plain = " ".join(words), shell._PLAIN
    fast = told(read.__wrapped__(command))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shell, "_PLAIN", re.compile("(?!)"))
        assert told(read.__wrapped__(command)) == fast, plain.fullmatch(command)


@pytest.mark.parametrize("command", ["{\U0001f389", "\U000304f8{\U000d25ce", "echo \U0010ffff{\U0010fffe,b}"] * 20)
def test_characters_beyond_the_basic_plane_do_not_end_the_process(command: str) -> None:
    read(command)


@given(st.text(max_size=40) | st.text("ab;&|()$`\"'\\<>{}#\n =", max_size=40))
@settings(max_examples=300)
def test_any_text_gives_an_answer(command: str) -> None:
    script = read(command)
    assert script.understood or script.why
    assert all(part.words for part in script.parts)


@pytest.mark.parametrize(
    "text",
    [
        "{" + "a," * 30_000,
        "`" * 60_001,
        "find " + "-exec rm " * 6000,
        "env " * 15_000,
        "cd a;" * 10_000 + "a > b",
        "a;" * 30_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_long_hostile_command_is_read_in_time(text: str) -> None:
    assert "rm" not in text or not read(text).understood
    read(text)


@pytest.mark.parametrize(
    "command",
    [
        "echo rm > x; sh x",
        "echo rm > ./x; sh x",
        "echo rm > x; . ./x",
        "echo rm > x; ./x",
        "echo rm > x.py; python x.py",
        "echo a > Makefile; make",
        "echo a > makefile; gmake all",
        "echo rm > x; BASH_ENV=x bash -c true",
        "echo rm > x; env --file=x",
    ],
)
def test_what_runs_a_file_that_it_writes_itself_is_no_sure_thing(command: str) -> None:
    assert command in read(command).loose


BASH = """
show() { printf '\\001'; printf '%s\\002' "$@"; }
while IFS= read -r -d '' command; do
  unset -f f
  eval "$command" 2>/dev/null
  printf '\\003'
done
"""
COUNT = 4_000


class Maker:
    """Generates commands whose words are known without running anything else: quotes, escapes, lists, structures."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def piece(self) -> str:
        plain = "".join(self.random.choices("abzXYZ019_./:=+-,%@", k=self.random.randint(1, 4)))
        any_text = "".join(self.random.choices("ab $\\\\'\"`*?;|&<>(){}#~!\t", k=self.random.randint(0, 5)))
        kind = self.random.randrange(9)
        if kind == 0:
            return "'" + any_text.replace("'", "") + "'"
        if kind == 1:
            inner = any_text.replace("!", "")
            return '"' + "".join("\\" + char if char in '$`"\\' else char for char in inner) + '"'
        if kind == 2:
            return "\\" + self.random.choice(" $'\"\\*;|&<>(){}#~ab`")
        if kind == 3:
            return "$'" + self.random.choice(["\\x41", "\\n", "a\\'b", "\\101", "\\t", "q", "\\\\", "\\u00e9"]) + "'"
        if kind == 4:
            return '$"' + plain + '"'
        return plain

    def word(self) -> str:
        made = "".join(self.piece() for _ in range(self.random.randint(1, 3)))
        return "w" + made if made[0] in "#~=-" or made.isdigit() else made

    def simple(self) -> str:
        words = [self.word() for _ in range(self.random.randint(0, 4))]
        if self.random.random() < 0.2:
            place = self.random.randint(0, len(words))
            words.insert(place, self.random.choice(["2>/dev/null", "< /dev/null", "2>&1", "3>&1"]))
        return " ".join(["show", *words])

    def command(self, depth: int = 0) -> str:
        if depth > 2 or self.random.random() < 0.4:
            return self.simple()
        one, two = self.command(depth + 1), self.command(depth + 1)
        return self.random.choice(
            [
                "{one}; {two}", "{one} && {two}", "{one} || {two}", "{{ {one}; }}", "( {one} )", "{one}\n{two}",
                "if true; then {one}; else {two}; fi", "for i in 1 2; do {one}; done", "! {one}", "{one} # c\n{two}",
                "case x in x) {one};; *) {two};; esac", "while {one}; do break; done", "[[ a == a ]] && {one}",
                "f() {{ {one}; }}; f", "until {one}; do {two}; break; done", "{one} &\nwait\n{two}",
                "[ -f x ] || {one}",
                "x=1; {one}", "A=1 {one}" if one.startswith("show") else "{one}", "(( 1 )) && {one}",
                "{one} <<'E'\nz\nE\n",
            ]
        ).format(one=one, two=two)  # fmt: skip


def told(script: shell.ShellScript) -> dict[str, object]:
    return {**vars(script), "parts": [vars(part) for part in script.parts]}


def seen(command: str) -> list[list[str]] | None:
    try:
        found = list(shell.simple_commands(command))
    except shell.Lost:
        return None
    return [[word.text for word in one.words] for one in found if isinstance(one, shell.SimpleCommand)]


def test_the_words_that_are_seen_are_the_words_that_run() -> None:
    make = Maker(1)
    commands = [make.command() for _ in range(COUNT)]
    done = subprocess.run(
        [need("bash"), "--norc", "-c", BASH],
        input="".join(f"{command}\0" for command in commands).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
        timeout=300,
    )
    ran = done.stdout.split(b"\3")
    assert len(ran) == COUNT + 1
    lost, checked = 0, 0
    for command, said in zip(commands, ran, strict=False):
        words = seen(command)
        if words is None:
            lost += 1  # it would be asked about, never allowed unseen
            continue
        for call in said.split(b"\1")[1:]:
            given = [word.decode("utf-8", "replace") for word in call.split(b"\2")[:-1]]
            given = [] if given == [""] and ["show"] in words else given  # printf prints once even without arguments
            assert ["show", *given] in words, (command, given, words)
            checked += 1
    assert checked > COUNT and lost < COUNT / 5, (checked, lost)


@pytest.mark.parametrize(
    "command", ["(" * 3000, "$(" * 400 + "a" + ")" * 400, "\0", "'", "a && ", "if a; then", "\udc80"]
)
def test_what_the_grammar_does_not_take_is_lost_or_read_but_never_an_error(command: str) -> None:
    seen(command)


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2028", "\x85", "\v", "\f", "\r", "\x1c", "\x1f"])
def test_what_only_looks_like_a_blank_is_part_of_a_word(blank: str) -> None:
    """Bash has three blanks. A rule that sees two words where bash runs one would judge something else."""
    asked = f"show x{blank}y{blank}"
    given = subprocess.run(
        [need("bash"), "--norc", "-c", f"show() {{ printf '%s' \"$1\"; }}; {asked}"],
        stdout=subprocess.PIPE,
        env={"LC_ALL": "C.UTF-8"},
    ).stdout.decode()
    assert given == f"x{blank}y{blank}"
    assert seen(asked) in (None, [["show", given]])
    assert seen(f"git{blank}status") in (None, [[f"git{blank}status"]])
    if seen(asked) is not None:
        assert [one.source for one in shell.simple_commands(asked) if isinstance(one, shell.SimpleCommand)] == [asked]


@pytest.mark.parametrize(
    "command",
    [
        "echo \"${x:-'$(b)'}\"",
        "echo \"${x:-$'$(b)'}\"",
        "A=\"${x:-'$(b)'}\"",
        "for y in \"${x:-'$(b)'}\"; do c; done",
        "echo $(('$(b)'))",
        "echo $(('a[$(b)]'))",
        "echo $(('`b`'))",
        'echo "${x:-`b`}"',
        "echo $['$(b)']",
        "(('$(b)'))",
        "echo ${a['c[$(b)]']}",
        "a['$(b)']=1",
    ],
)
def test_single_quotes_do_not_hide_what_an_expansion_runs(command: str) -> None:
    """Bash runs b in each of them, and the grammar takes it for text."""
    assert not read(command).understood


@pytest.mark.parametrize(
    "command",
    [
        'echo "${x:-$(b)}"',
        "echo $(( $(b) + 1 ))",
        "echo $((1 + $(b) + $((2)) ))",
        "(( $(b) ))",
        "a[$(b)]=1",
        "{ $(b) '$(c)'; }",
        "$(b '$(c)')",
    ],
)
def test_what_an_expansion_runs_is_seen_where_the_grammar_sees_it(command: str) -> None:
    assert "b" in [words[0] for words in seen(command) or [] if words]
