"""What `.gitignore` rules leave out, as git understands them."""

import pytest

from treadle.policy.patterns import IgnoreRules


@pytest.mark.parametrize(
    ("rules", "left", "kept"),
    [
        ("*.log", ["a.log", "d/a.log"], ["a.txt", "a.log.txt"]),
        ("/a.log", ["a.log"], ["d/a.log"]),
        ("d/a.log", ["d/a.log"], ["x/d/a.log", "a.log"]),
        ("build/", ["build/", "x/build/"], ["build"]),
        ("**/temp", ["temp", "a/temp", "a/b/temp/"], ["tempo"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["b", "xa/b"]),
        ("a/**", ["a/b", "a/b/c/"], ["a/"]),
        ("*.log\n!keep.log", ["a.log"], ["keep.log"]),
        ("!keep.log\n*.log", ["keep.log"], []),
        ("# a comment\n\n   \n\\#real\n\\!real", ["#real", "!real"], ["# a comment"]),
        ("trail   \nsaved\\ ", ["trail", "saved "], ["trail   ", "saved"]),
        ("[ab]?.c", ["ax.c", "by.c"], ["cx.c", "a.c"]),
        ("[!a].c\n[^z].d", ["b.c", "a.d"], ["a.c", "z.d"]),
        ("[]x].c", ["].c", "x.c"], ["y.c"]),
        ("[!]a].c", ["b.c"], ["].c", "a.c"]),
        ("open[\n[z-a].x\nend\\", ["open[", "end\\"], ["open", "b.x", "end"]),
        ("foo*bar*baz", ["fooXbarYbaz", "foobarbaz"], ["foobaz", "foobar"]),
        ("crlf\r\nnext\r", ["crlf", "next"], []),
        ("**", ["a", "b/"], []),
        ("/", [], ["a", "a/"]),
    ],
)
def test_rules_mean_what_git_says_they_mean(rules: str, left: list[str], kept: list[str]) -> None:
    compiled = IgnoreRules(rules)
    for path in left:
        assert compiled.ignored(path, path.rstrip("/").rpartition("/")[2] + "/" * path.endswith("/")) is True, path
    for path in kept:
        assert not compiled.ignored(path, path.rstrip("/").rpartition("/")[2] + "/" * path.endswith("/")), path


def test_a_hostile_pattern_takes_no_time() -> None:
    rules = IgnoreRules("*a" * 40 + "b\n" + "[a-z]*" * 30 + "!")
    assert rules.ignored("a" * 255, "a" * 255) is None
