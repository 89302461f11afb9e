"""The words that the reader sees are those that bash runs: thousands of generated commands are given to both."""

import random
import subprocess

import pytest

from tests.conftest import need
from treadle.policy import shell

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


def read(command: str) -> list[object]:
    return list(shell.simple_commands(command))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("a - <<E\nx\nE\n", [["a", "-"]]),
        ("> f a b", [["a", "b"]]),
        ("a > f b", [["a", "b"]]),
        ("a 2>&1 >f b", [["a", "b"]]),
        ("a <<< b c", [["a", "c"]]),
        ("a $'\\x41\\101\\u00e9\\cA\\q'", [["a", "AA\u00e9\x01\\q"]]),
        ("a 'b'\"c d\"", [["a", "bc d"]]),
        ("a \\\n b", [["a", "b"]]),
        ("export A=b c", [["export", "A=b", "c"]]),
        ("! { a; }", [["a"]]),
        ("a # b", [["a"]]),
    ],
)
def test_words_round_redirections_quotes_and_structures(command: str, words: list[list[str]]) -> None:
    assert seen(command) == words


@pytest.mark.parametrize(
    ("command", "inner"),
    [("a $(b c)", ["b", "c"]), ('a "x $(b c)"', ["b", "c"]), ("A=$(b c)", ["b", "c"]), ("a <(b c)", ["b", "c"])],
)
def test_a_command_inside_the_words_of_another_is_seen_before_it(command: str, inner: list[str]) -> None:
    assert (seen(command) or [])[0] == inner


def test_what_stands_between_backticks_is_given_as_text() -> None:
    assert shell.Inner(text="b `c` $d") in read("a `b \\`c\\` \\$d`")


def test_only_what_is_known_before_it_runs_is_not_dynamic() -> None:
    [command] = (one for one in read("a $B ${C} $((1+1)) *.py {x,y} 'z*'") if isinstance(one, shell.SimpleCommand))
    assert [word.dynamic for word in command.words] == [False, True, True, True, False, False, False]
    assert [word.glob for word in command.words] == [False, False, False, False, True, True, False]


def test_assignments_are_told_apart_from_words() -> None:
    for command in ("A=1 B=2 c", "A=1"):
        [found] = (one for one in read(command) if isinstance(one, shell.SimpleCommand))
        assert [word.text for word in found.assignments][0] == "A=1"
    [found] = (one for one in read("A=1 B=2") if isinstance(one, shell.SimpleCommand))
    assert [word.text for word in found.assignments] == ["A=1", "B=2"] and found.words == []


def test_redirections_are_told_with_their_operator_and_target() -> None:
    found = [one for one in read("a > b 2>> c < d 2>&1 3>&-") if isinstance(one, shell.Redirection)]
    assert [(one.operator, one.target.text) for one in found] == [(">", "b"), (">>", "c"), ("<", "d"), (">&", "1")]


@pytest.mark.parametrize(
    "command", ["for", "case a in b", "a) b", "f() ", "a $'b", "a 'b", "$(" * 250 + "a" + ")" * 250, "{ a; } > f b"]
)
def test_what_is_not_understood_is_lost(command: str) -> None:
    assert seen(command) is None


def told(command: str) -> list[object]:
    """A command as words, assignments, source and whether it has a document; a redirection; or text of backticks."""
    found: list[object] = []
    for one in read(command):
        if isinstance(one, shell.SimpleCommand):
            words, assigned = ([word.text for word in given] for given in (one.words, one.assignments))
            found.append((words, assigned, one.source, one.document))
        elif isinstance(one, shell.Redirection):
            found.append((one.operator, one.target.text))
        else:
            assert isinstance(one, shell.Inner)
            found.append(one.text)
    return found


def alone(command: str, *words: str, assigned: tuple[str, ...] = (), document: bool = False) -> tuple[object, ...]:
    return [*words], [*assigned], command.strip(), document


@pytest.mark.parametrize(
    ("command", "before"),
    [
        ("a <<E\nx $(b c) y\nE\n", [alone("b c", "b", "c")]),
        ("a <<E\nx `b c` `d \\`e\\``\nE\n", ["b c", "d `e`"]),
        ("a <<E\n`b` \\`n\nE\n", ["b"]),
        ("a <<-E\n\t`b`\n\tE\n", ["b"]),
        ("a <<'E'\n`b` $(c)\nE\n", []),
        ("a <<\\E\n`b`\nE\n", []),
        ('a <<"E"\n`b`\nE\n', []),
        ("a <<E > f\n`b`\nE\n", [(">", "f"), "b"]),
        ("a <<< `b`", ["b"]),
    ],
)
def test_what_a_document_runs_is_seen_unless_its_end_is_quoted(command: str, before: list[object]) -> None:
    assert told(command) == [*before, alone(command, "a", document=True)]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("A=1 b C=2", [alone("A=1 b C=2", "b", "C=2", assigned=("A=1",))]),
        ("A[0]=1 B+=2 c", [alone("A[0]=1 B+=2 c", "c", assigned=("A[0]=1", "B+=2"))]),
        ("A=$(b) C=2", [alone("b", "b"), alone("A=$(b) C=2", assigned=("A=$(b)", "C=2"))]),
        ("local A=1 B", [alone("local A=1 B", "local", "A=1", "B")]),
        ("declare A=$(b)", [alone("b", "b"), alone("declare A=$(b)", "declare", "A=$(b)")]),
        ("unset A", [alone("unset A", "unset", "A")]),
        ("then a", [alone("then a", "a")]),
        ("A=1 then b", [alone("A=1 then b", "then", "b", assigned=("A=1",))]),
        ("> f", [(">", "f")]),
        ("> f a b", [(">", "f"), alone("> f a b", "a", "b")]),
        ("2>&1 a", [(">&", "1"), alone("2>&1 a", "a")]),
        ("a >&-", [alone("a >&-", "a")]),
        ("a > f <<E b\nx\nE\n", [(">", "f"), alone("a > f <<E b\nx\nE", "a", "b", document=True)]),
        ("a > f > g h i", [(">", "f"), (">", "g"), alone("a > f > g h i", "a", "h", "i")]),
        ("cat < <(b)", [alone("b", "b"), ("<", "<(b)"), alone("cat < <(b)", "cat")]),
        ("{ a; } <<E\nx\nE\n", [alone("a", "a")]),
        ("a | b > f", [(">", "f"), alone("a", "a"), alone("b", "b")]),
        ("for x in $(b); do c; done", [alone("b", "b"), alone("c", "c")]),
        ('a "`b`"', ["b", alone('a "`b`"', "a", "`b`")]),
        ("`b \\\\x`", ["b \\x", alone("`b \\\\x`", "`b \\\\x`")]),
        ("[[ a == $(b) ]]", [alone("b", "b")]),
        (
            "a '' \"\" $'x\\0y'z $'\\U0001F600\\400'",
            [alone("a '' \"\" $'x\\0y'z $'\\U0001F600\\400'", "a", "", "", "xz", "😀")],
        ),
        ('a "b\\x\\$\\"\\\nc" \\* $"d e"', [alone('a "b\\x\\$\\"\\\nc" \\* $"d e"', "a", 'b\\x$"c', "*", "d e")]),
        ("echo é > ü", [(">", "ü"), alone("echo é > ü", "echo", "é")]),
    ],
)
def test_commands_assignments_and_redirections_are_told_in_their_order(command: str, found: list[object]) -> None:
    assert told(command) == found


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("a <<E\nx ` y\nE\n", "what a here-document runs"),
        ("[[ a[$(b)] == c ]]", "a subscript that runs a command"),
        ("(( a[$(b)] ))", "a subscript that runs a command"),
        ("( a ) > f b", "words after a redirection"),
        ("a \\ b", "its syntax"),
        ("a >", "its syntax"),
        ("esac", "`esac`"),
        ("in a", "`in`"),
        ("$(" * 66 + "a" + ")" * 66, "it is too deep"),
    ],
)
def test_it_is_said_why_a_command_is_not_understood(command: str, why: str) -> None:
    with pytest.raises(shell.Lost, match=f"^{why}$"):
        read(command)


@pytest.mark.parametrize(
    ("command", "depth"), [("( ( ( a ) ) )", 6), ("a $(b $(c))", 7), ("a ${x:-${y:-${z:-$(b)}}}", 8)]
)
def test_a_command_may_be_as_deep_as_it_may(command: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert understood(command, depth, monkeypatch) and not understood(command, depth - 1, monkeypatch)


def understood(command: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(shell, "SYNTAX_DEPTH", depth)
    return seen(command) is not None


@pytest.mark.parametrize(
    ("text", "runs"),
    [("a[$(b)]", True), ("a['$'(b)]", True), ("a[`b`]", True), ("[$(b)]", False), ("a[1] $(b)", False)],
)
def test_a_subscript_that_is_evaluated_may_run_a_command(text: str, runs: bool) -> None:
    assert shell.runs_in_subscript(text) is runs


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
    with pytest.raises(shell.Lost, match="^what an expansion runs$"):
        read(command)


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
