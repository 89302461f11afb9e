"""Command lines of the small commands."""

import subprocess
import sys

import pytest

from treadle.cli.arguments import Arguments, UsageError


def parsed(*words: str, stop: bool = False) -> Arguments:
    return Arguments(list(words), "--id --ttl", "--json -f", "--env", stop=stop)


def test_a_number_has_bounds() -> None:
    assert parsed().number("--ttl", 3.0) == 3.0
    assert parsed("--ttl", "1.5").number("--ttl", 3.0) == 1.5
    assert [parsed(f"--ttl={text}").number("--ttl", 3.0) for text in ("0", "1e9")] == [0.0, 1e9]
    assert parsed("--ttl=2").number("--ttl", 3.0, least=2.0) == 2.0
    with pytest.raises(UsageError, match="from 2 to 1e"):
        parsed("--ttl=1.9").number("--ttl", 3.0, least=2.0)
    for text in ("x", "-1", "nan", "inf", "1e10"):
        with pytest.raises(UsageError, match="--ttl must be a number from 0 to 1e"):
            parsed(f"--ttl={text}").number("--ttl", 3.0)


def test_what_is_needed_must_be_there_and_words_are_counted() -> None:
    with pytest.raises(UsageError, match="--id is needed"):
        parsed().need("--id")
    with pytest.raises(UsageError, match="--id is needed"):
        parsed("--id", "").need("--id")
    assert parsed("--id", "x").need("--id") == "x" and parsed().get("--id") == "" and parsed().get("--id", "y") == "y"
    assert parsed("a").exactly(1, "one id") == ["a"]
    with pytest.raises(UsageError, match="expected one id"):
        parsed("a", "b").exactly(1, "one id")


ENDS = """
import sys
from treadle.cli.arguments import exit_code

def work():
    how = sys.argv[1]
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "disk":
        sys.stdout.write("lost")
        raise OSError(28, "No space left on device")
    print("written" * (20_000 if how == "much" else 1))
    return 7

sys.exit(exit_code("name", work))
"""


def ended(line: str) -> tuple[int, str, str]:
    script = ["sh", "-c", line, "sh", sys.executable, "-c", ENDS]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_the_exit_code_is_the_works_or_says_what_became_of_its_output() -> None:
    assert ended('"$@" x')[::2] == (7, "") and ended('"$@" x <&- 2>&-')[0] == 7
    assert ended('"$@" interrupt') == (130, "", "")
    assert ended('"$@" disk') == (2, "", "name: [Errno 28] No space left on device\n")
    assert ended('{ "$@" much; echo $? >&2; } | :') == (0, "", "141\n")
    assert ended('"$@" x >/dev/full') == (2, "", "name: [Errno 28] No space left on device\n")
