"""Harmless programs with harmful options."""

import pytest

from treadle.policy.programs import risky

HARMFUL = """
git log --output=x|git log --outp=x|git grep -Oevil x|git grep --open-files-in-pager=evil x
git fetch --upload-pack=evil|git -c core.pager=evil log|git -c alias.x=!evil x|git -C /evil status
git -C .. status|git -C src/../.. log|git -C ~/evil status
git --exec-path=/evil status|git diff --ext-diff|git rebase -x evil|git rebase --exec=evil
git config core.fsmonitor evil|git archive -o x HEAD|git --git-dir=/evil log|find . -exec rm {} +|find . -delete
find . -fprintf x y|find . -ok rm {}|fd -x rm|sort -o x y|sort --output=x|sort -ro x y
sort --compress-program=evil|sed -i s/a/b/ x|sed -n -i.bak p x|sed --in-place p x|sed 1w/etc/x y|sed s/a/b/e x
sed e x|sed -f evil x|rg --pre=evil x|rg --pre evil x|make -f evil|make --eval=evil|make --file=evil
make -C /evil|tar -xf x|tar --checkpoint-action=exec=evil -cf x y|tar cf x y|tar -cf x -I evil y
tar --to-command=evil -xf x|curl -o x http://a|curl -sSo x http://a|curl -K evil|wget -O x http://a
rsync -e evil a b|split --filter=evil x|shuf -o x y|tree -o x|date -s now|env -S evil|man -P evil x
awk 'BEGIN{system("x")}'|awk '{print > "x"}' y|awk '{print > "sh"}'|uniq a b|go build -o x|go test -exec evil
go vet -toolexec=evil|pytest -p evil|npm --prefix /evil test|cargo --config x build|gcc -o x y.c|zip -T x
pip install -t x y|ssh -o ProxyCommand=evil h|scp -S evil a b|openssl enc -out x|less -o x y
"""
HARMLESS = """
git log --oneline -5|git status --short|git diff --stat HEAD~1|git -C src status|git show HEAD:a|git grep -n x
git branch|git -c core.pager=cat log|git log -p --format=%h|git config --get user.name|git stash list
git remote -v|git tag -l|find . -name x -type f|sort -u x|sort -k2 -n x|sed -n 1,5p x|sed s/a/b/ x
sed 's/write/read/' x|rg -n x src|make test|make -j4 all|tar -tf x|tar tzf x|curl -sS http://a|wget -q http://a
shuf x|tree -L 2|date +%s|env|man ls|awk '{print $1}' x|uniq -c a|go test ./...|go vet ./...|pytest -q -x tests
npm test|cargo build --release|ls -la|cat x|head -n 5 x|wc -l x|grep -rn x .|echo -o x|python3 -m pytest
node x.js|du -sh .|diff -u a b|jq .a x.json|ps aux|which ls|file x|stat x|cut -d: -f1 x|tr a b
"""


def words(line: str) -> list[str]:
    import shlex

    return shlex.split(line)


def listed(text: str) -> list[str]:
    return [one for line in text.strip().splitlines() for one in line.split("|") if one]


@pytest.mark.parametrize("command", listed(HARMFUL))
def test_an_option_that_runs_or_writes_is_seen(command: str) -> None:
    assert risky(words(command))


@pytest.mark.parametrize("command", listed(HARMLESS))
def test_everyday_options_are_not_risky(command: str) -> None:
    assert not risky(words(command))
