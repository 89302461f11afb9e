"""The words that the reader sees are those that bash runs: thousands of generated commands are given to both."""

import random
import subprocess

import pytest

from tests.conftest import need
from treadle.policy import syntax

BASH = """
show() { printf '\\001'; printf '%s\\002' "$@"; }
while IFS= read -r -d '' command; do
  unset -f f
  eval "$command" 2>/dev/null
  printf '\\003'
done
"""
COUNT = 8_000


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
        found = list(syntax.read(command))
    except syntax.Lost:
        return None
    return [[word.text for word in one.words] for one in found if isinstance(one, syntax.SimpleCommand)]


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
        assert [one.source for one in syntax.read(asked) if isinstance(one, syntax.SimpleCommand)] == [asked]


def read(command: str) -> list[object]:
    return list(syntax.read(command))


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
    assert syntax.Inner(text="b `c` $d") in read("a `b \\`c\\` \\$d`")


def test_only_what_is_known_before_it_runs_is_not_dynamic() -> None:
    [command] = (one for one in read("a $B ${C} $((1+1)) *.py {x,y} 'z*'") if isinstance(one, syntax.SimpleCommand))
    assert [word.dynamic for word in command.words] == [False, True, True, True, False, False, False]
    assert [word.glob for word in command.words] == [False, False, False, False, True, True, False]


def test_assignments_are_told_apart_from_words() -> None:
    for command in ("A=1 B=2 c", "A=1"):
        [found] = (one for one in read(command) if isinstance(one, syntax.SimpleCommand))
        assert [word.text for word in found.assignments][0] == "A=1"
    [found] = (one for one in read("A=1 B=2") if isinstance(one, syntax.SimpleCommand))
    assert [word.text for word in found.assignments] == ["A=1", "B=2"] and found.words == []


def test_redirections_are_told_with_their_operator_and_target() -> None:
    found = [one for one in read("a > b 2>> c < d 2>&1 3>&-") if isinstance(one, syntax.Redirection)]
    assert [(one.operator, one.target.text) for one in found] == [(">", "b"), (">>", "c"), ("<", "d"), (">&", "1")]


@pytest.mark.parametrize(
    "command", ["for", "case a in b", "a) b", "f() ", "a $'b", "a 'b", "$(" * 250 + "a" + ")" * 250, "{ a; } > f b"]
)
def test_what_is_not_understood_is_lost(command: str) -> None:
    assert seen(command) is None
