"""Commands that run another one where it is easily overlooked. Each really does, in bash; so none may run unasked."""

import shutil
import subprocess
from pathlib import Path

import pytest

from treadle.io.paths import DISK
from treadle.policy import shell
from treadle.policy.rules import Profile
from treadle.session import Access, Rules

HIDDEN = [
    *("cat <<E\n$(touch made)\nE", "cat <<E\n`touch made`\nE", "cat <<E\ntext `touch made` $(true)\nE"),
    *("cat <<-E\n\t$(touch made)\n\tE", "cat <<E\n$((a[$(touch made)]))\nE", "cat <<E\n${x:-$(touch made)}\nE"),
    *("cat <<E\n${x:-`touch made`}\nE", 'cat <<E\n"$(touch made)"\nE', "cat <<E\n\\\\$(touch made)\nE"),
    *("cat <<E\n'`touch made`'\nE", "cat <<A <<B\na\nA\n`touch made`\nB", "cat <<E | cat\n`touch made`\nE"),
    *('cat <<< "`touch made`"', "cat <<< $(touch made)", "cat <<E\n$[a[$(touch made)]]\nE"),
    *("printf -v 'a[$(touch made)]' 1", "printf -va[\\$\\(touch\\ made\\)] 1", "printf -v 'a[`touch made`]' 1"),
    *("test -v 'a[$(touch made)]'", "[ -v 'a[$(touch made)]' ]", "[[ -v 'a[$(touch made)]' ]]"),
    *("cat f && [[ -v 'a[$(touch made)]' ]]", "[[ 'a[$(touch made)]' -eq 1 ]]", "a=1; [[ -v a'[$(touch made)]' ]]"),
    *("let 'a[$(touch made)]=1'", "read 'a[$(touch made)]' <<< 1", "a=(1); unset 'a[$(touch made)]'"),
    *("declare 'a[$(touch made)]=1'", "(( a[$(touch made)] ))", "cat f; (( a[`touch made`] ))"),
    *("mapfile -C 'touch made #' -c 1 a <<< 1", "echo $((a[$(touch made)]))"),
    *("sed --expression='1w made' f", "sed --expr='1w made' f", "sed -e'1w made' f", "sed -ne'1w made' f"),
    *("sed -n '1w made' f", "sed 's/a/b/w made' f", "sed '1e touch made' f", "sed -s --expression='s/a/b/w made' f"),
]
PLAIN = [
    *("cat <<E\nplain $HOME ${x} text\nE", "cat <<'E'\n$(touch made) `touch made`\nE"),
    *("printf '%s\\n' 'a[0]'", "test -f 'a[0]'", "sed -n '1,5p' f", "sed -e's/we/be/' f", "[[ -f f ]] && cat f"),
]
NAMES = "cat printf test [ let read unset declare mapfile echo sed".split()


def verdict(command: str, mode: str) -> str:
    rules = Rules(allow=tuple(f"Bash({name} *)" for name in NAMES) + ("Bash(cat)",))
    guard = Profile("/nonexistent/w", rules, mode, disk=DISK, looks_freely=True)  # type: ignore[arg-type]
    return guard(Access(tool="bash", kind="other", command=command)).verdict


@pytest.mark.parametrize("command", HIDDEN)
def test_a_command_that_runs_or_writes_something_else_does_not_run_unasked(command: str, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    (tmp_path / "f").write_text("a\n")
    done = subprocess.run([bash, "-c", command], cwd=tmp_path, capture_output=True, timeout=60)
    assert (tmp_path / "made").exists(), done.stderr
    assert verdict(command, "suggest") == "ask"
    if "touch" in command:
        parts = [part.words for part in shell.read(command).parts]
        assert any(words[:1] == ("touch",) for words in parts), "a rule that denies touch applies"


@pytest.mark.parametrize("command", PLAIN)
def test_the_same_without_a_command_inside_needs_no_question(command: str) -> None:
    assert verdict(command, "suggest") == "allow"
