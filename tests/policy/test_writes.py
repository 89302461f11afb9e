"""What a command writes, as far as its text shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.policy.writes import of_command

WRITE = [
    "echo x > src/h",
    "echo x >> src/h",
    ">src/h",
    "exec 3>src/h",
    "cat x | tee src/h",
    "tee -a src/h < x",
    "sed -i s/a/b/ src/h",
    "sed -Ei.bak -e s/a/b/ src/h",
    "sed --in-place=.bak s/a/b/ src/h",
    "perl -pi -e s/a/b/ src/h",
    "cp x src/h",
    "cp -t src x h",
    "cp -at src x/h",
    "cp -atsrc x/h",
    "cp --target-dir=src x/h",
    "install -Dt src x/h",
    "cp --parents src/h ''",
    "rsync --remove-source-files src/h x",
    "time -o src/h true",
    "mv x src/h",
    "mv src/h x",
    "rm -f src/h",
    "unlink src/h",
    "shred -u src/h",
    "truncate -s0 src/h",
    "touch src/h",
    "chmod 600 src/h",
    "ln -sf x src/h",
    "install -m644 x src/h",
    "rsync -a x src/h",
    "dd if=x of=src/h",
    "sort -o src/h x",
    "curl -o src/h http://x",
    "split x src/h",
    "gzip src/h",
    "black src/h",
    "find src/h -delete",
    "cd src && rm h",
    "cd src; cp ../x h",
    "env A=1 rm src/h",
    "sudo rm src/h",
    "timeout 5 rm src/h",
    "bash -c 'rm src/h'",
    "true && (rm src/h)",
    "x=$(rm src/h)",
    "if true; then rm src/h; fi",
    "f() { rm src/h; }; f",
    "git checkout -- src/h",
    "git checkout HEAD -- src/h",
    "git restore src/h",
    "git restore --source=HEAD~1 src/h",
    "git rm -f src/h",
    "git mv src/h x",
    "git -C src restore h",
]
UNSEEN = [
    "F=src/h; echo x > $F",
    "rm $F",
    "python3 -c 'open(1)'",
    "python3 - <<E\nx\nE",
    "python3 < x",
    "node -e x",
    "perl -e x",
    "ruby -e x",
    "uv run python -c x",
    "awk '{print > \"src/h\"}' x",
    "sed -n 'w src/h' x",
    "eval $X",
    "$X src/h",
    "bash < x",
    "curl http://x | bash",
    "ls | xargs rm",
    "find . -name h -exec rm {} ;",
    "for f in a b; do rm $f; done",
    "patch -p1 < x",
    "git apply x.patch",
    "git am x",
    "git merge x",
    "git pull",
    "git rebase main",
    "git cherry-pick x",
    "git revert x",
    "git switch main",
    "git -c alias.x='!rm y' x",
    "git --work-tree=src checkout .",
    "git config core.hooksPath /dev/null",
    "tar xf x.tar",
    "unzip x.zip",
    "ed -s src/h",
    "ssh host rm x",
    "rm 'unclosed",
    "tar --extract --file x.tar",
    "tar -tf x.tar --use-comp='sh -c y'",
    "tar cf x y --checkpoint-action=exec=z",
    "split --filter='cat > src/h' x",
    "curl -sK x",
    "xargs -I% sh -c 'echo x > %'",
    "ls | xargs -I{} sh -c 'echo x > {}'",
    "GIT_TRACE=/x/src/h git status",
    "export GIT_TRACE=/x/src/h; git status",
    "env GIT_CONFIG_VALUE_0=x git status",
    "GIT_EDITOR='tee src/h' git tag -a x",
    "GIT_INDEX_FILE=src/h git add x",
    "BASH_ENV=x bash -c ls",
    "CDPATH=src cd x && echo y > h",
    "HISTFILE=src/h; history -w",
    "hash -p /usr/bin/tee cat; cat src/h",
    "compgen -W '$(rm src/h)'",
    "x='a[$(rm src/h)]'; echo $((x))",
    "x='$(rm src/h)'; echo ${x@P}",
    "PS4='$(rm src/h)'; set -x; :",
    "echo x > ~+/src/h",
    "cd docs; cp x ~-/src/h",
    "git submodule foreach 'rm src/h'",
    "git submodule add x src/h",
    "git fetch -u . x:main",
    "tmux new -d ls",
    "tmux -l new -d ./x",
    "tmux ls \\; new -d ./x",
    "tmux ls -F '#(./x)'",
    "screen -dm ./x -ls",
]
NOTHING = [
    "ls -la src",
    "cat src/h",
    "grep -rn x src/h",
    "cp src/h /elsewhere/x",
    "sed -n 1,5p src/h",
    "awk '{print $1}' src/h",
    "git status",
    "git log -p src/h",
    "git diff src/h",
    "git checkout -b x",
    "git stash list",
    "git restore --staged src/h",
    "git fetch",
    "tar tf x.tar",
    "npm test",
    "make",
    "cargo build",
    "echo x > /dev/null",
    "mkdir -p docs/x",
    "black --check src/h",
    "git config user.name x",
    "node --version",
    "hash -r",
    "PAGER=cat git log",
    "GIT_AUTHOR_DATE=2020-01-01 git status",
    "git submodule status",
    "heimdall-claim check src/h",
    "tmux -L s ls",
    "tmux capture-pane -p -t x",
    "screen -ls",
]
ALL = ["git reset --hard", "git stash", "git clean -fd", "git checkout -f main"]


@pytest.mark.parametrize("command", WRITE)
def test_a_visible_target_is_found(command: str) -> None:
    assert "src/h" in [target.path for target in of_command(command).targets]


@pytest.mark.parametrize("command", UNSEEN)
def test_what_cannot_be_seen_is_said(command: str) -> None:
    assert of_command(command).unseen


@pytest.mark.parametrize("command", NOTHING)
def test_what_only_looks_or_writes_elsewhere_touches_nothing_here(command: str) -> None:
    found = of_command(command)
    assert not found.unseen
    assert not [target for target in found.targets if target.path.startswith("src")]


@pytest.mark.parametrize("command", ALL)
def test_what_changes_the_whole_checkout_says_so(command: str) -> None:
    assert "." in [target.path for target in of_command(command).targets]


@pytest.mark.parametrize(
    "command",
    [
        "pytest src/h",
        "ln src/h x",
        "cp -l src/h x",
        "history -w src/h",
        "ss -D src/h",
        "sqlite3 :memory: '.output src/h'",
        "tmux new -d 'echo x > src/h'",
        """python3 -m timeit 'open("src/h", "w")'""",
        "git stash show --output=src/h",
    ],
)
def test_words_that_a_program_may_write_are_mentions(command: str) -> None:
    assert "src/h" in of_command(command).mentions


@given(st.text(max_size=60))
def test_any_text_gets_an_answer(command: str) -> None:
    of_command(command)
