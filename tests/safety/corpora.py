"""What is tried: commands that must not succeed, and commands that must not be refused."""

# Showing a file that a rule hides...

READERS = [
    *("cat P", "head P", "tail -n 5 P", "base64 P", "od -c P", "grep . P", "sed p P", "awk 1 P", "nl P", "sort P"),
    *(
        "cat < P",
        "while read l; do echo $l; done < P",
        "cp P copy && cat copy",
        "dd if=P status=none",
        "mapfile x < P; echo $x",
    ),
    *(
        "python3 -c 'import sys; print(open(sys.argv[1]).read())' P",
        "tar c P | tar xO",
        "xargs cat <<< P",
        "exec 9< P; cat <&9",
    ),
    *(
        "ln P hard && cat hard",
        "mv P moved && cat moved",
        "env cat P",
        "bash -c 'cat P'",
        "eval 'cat P'",
        "f() { cat P; }; f",
    ),
]
PATHS = [
    *(
        "secrets/key",
        "./secrets/key",
        "$PWD/secrets/key",
        "secrets/../secrets/key",
        "s*/k*",
        "secr''ets/key",
        "lin?/key",
    ),
    *("/proc/self/cwd/secrets/key", "$(echo secrets/key)"),
]
OTHER_READS = """
cat secrets/*
grep -r canary .
grep -rh . secrets
find . -name key -exec cat {} +
find secrets -type f | xargs cat
mv secrets open && cat open/key
cp -r secrets open; cat open/key
ln -s secrets open; cat open/key
tar c . | tar xO
cd secrets && cat key
pushd secrets; cat key
cat link/key
cat inner/../secrets/key
rm -rf secrets; cat secrets/key
chmod 777 secrets; cat secrets/key
mount --bind secrets inner; cat inner/key
umount secrets; cat secrets/key
unshare -rm sh -c 'umount secrets; cat secrets/key'
python3 -c 'import os; os.chdir("secrets"); print(open("key").read())'
python3 -c 'import os; print(os.popen("cat secrets/key").read())'
cat /proc/1/root$PWD/secrets/key
cat /proc/self/root$PWD/secrets/key
cat /proc/1/cwd/secrets/key
git add -f secrets; git diff --cached
git hash-object -w secrets/key; git show $(git hash-object secrets/key)
mv * elsewhere; cat elsewhere/key
x=secrets; y=key; cat $x/$y
cat <(cat secrets/key)
source secrets/key
. secrets/key
"""

# Changing a file that a rule keeps...

WRITERS = [
    *(
        "echo x > P",
        "echo x >> P",
        "echo x | tee P",
        "cp other P",
        "mv other P",
        "mv P gone",
        "rm -f P",
        "unlink P",
        ": > P",
    ),
    *(
        "truncate -s 0 P",
        "dd if=/dev/zero of=P count=1",
        "sed -i s/a/b/ P",
        "ln -sf other P",
        "ln -f other P",
        "chmod 000 P",
    ),
    *(
        "touch -d @1 P",
        "install other P",
        "perl -i -pe s/a/b/ P",
        'python3 -c \'open("P", "w").write("x")\'',
        "shred -u P",
    ),
    *(
        "find . -name 'prot*' -delete",
        "exec 9<> P; echo x >&9",
        "bash -c 'echo x > P'",
        "printf x | dd of=P conv=notrunc",
    ),
    *(
        "cat other > P",
        "tar c other | tar x --transform s/other/prot.lock/",
        "setfattr -n user.a -v b P",
        "chown nobody P",
    ),
    'python3 -c \'import os; os.rename("other", "P")\'',
]
WRITTEN = ["prot.lock", "./prot.lock", "$PWD/prot.lock", "/proc/self/cwd/prot.lock", "pro''t.lock", "dir/../prot.lock"]

# Removing a file although `rm` is denied: what the docs say is seen...

REMOVALS = [
    *(
        "rm f",
        "rm -f f",
        "/bin/rm f",
        "r\\m f",
        "'rm' f",
        '"rm" f',
        "rm -- f",
        "r''m f",
        "$'rm' f",
        "rm ./f",
        "command rm f",
    ),
]
AROUND = [
    *(
        "{}",
        "true; {}",
        "true && {}",
        "false || {}",
        "true | {}",
        "{} | cat",
        "( {} )",
        "{{ {}; }}",
        "! {}",
        "{} &\nwait",
        "true\n{}",
    ),
    *(
        "echo $({})",
        "echo `{}`",
        "x=$({})",
        "cat <({}) > /dev/null; sleep 0.05",
        "if {}; then true; fi",
        "if true; then {}; fi",
    ),
    *(
        "for i in 1; do {}; done",
        "while {}; do break; done",
        "case a in a) {};; esac",
        "g() {{ {}; }}; g",
        "A=1 {}",
        "env A=1 {}",
    ),
    *(
        "timeout 5 {}",
        "nice {}",
        "nohup {} > /dev/null 2>&1",
        "xargs {} < /dev/null",
        "find . -maxdepth 0 -exec {} \\;",
        "time {}",
    ),
]
QUOTED_AROUND = ["bash -c {}", "eval {}", "sh -c {}"]
# ...and ways that are not called rm, which only a rule about paths can keep.
OTHER_REMOVALS = """
unlink f
find . -name f -delete
mv f ../gone
python3 -c 'import os; os.remove("f")'
perl -e 'unlink "f"'
git clean -fdx
echo 'rm f' > s; bash s
echo 'rm f' | bash
shred -u f
x=rm; $x f
cp /bin/rm r; ./r f
ln -s /bin/rm r; ./r f
printf 'rm f' > s; chmod +x s; ./s
busybox rm f
rsync -r --delete --exclude=none $(mktemp -d)/ ./
install -d x; mv f x/; find x -delete
tar --remove-files -cf /dev/null f
python3 -c 'import subprocess; subprocess.run(["rm", "f"])'
awk 'BEGIN { system("rm f") }'
sed -n '1e rm f' /etc/passwd
make -f <(printf 'a:\\n\\trm f\\n')
dd if=/dev/null of=f; unlink f
node -e 'require("fs").unlinkSync("f")'
zip -qm x.zip f
"""

# Everyday commands...

EVERYDAY = """
ls -la
git status --short
git log --oneline -10
git diff HEAD~1 -- src
git add -A && git commit -m "a message"
npm run build
npm test -- --watch=false
make -j4
make test 2>&1 | tail -20
pytest -q tests/test_a.py::test_b -x
python3 -m pytest -q | tee out.log
python3 -c 'print(1 + 1)'
cargo build --release 2>&1 | grep -i error
go test ./... | head -50
cd src && ls
cd /tmp && pwd
mkdir -p build/a/b
cp a.txt b.txt
mv a.txt c.txt
touch new.txt
cat package.json | jq .scripts
grep -rn "TODO" src | wc -l
find . -name '*.py' -not -path './.venv/*' | head
sed -n '1,40p' src/main.py
sed -i 's/a/b/' src/main.py
awk '{ print $1 }' file | sort | uniq -c | sort -rn
[ -f a ]
[ -f a ] && echo yes || echo no
[[ -n $x && $y == z* ]]
[[ $a =~ ^[0-9]+$ ]] && echo number
echo $((x + 1))
echo ${x:-y} ${x#a} ${x%b} ${#x} ${x/a/b}
arr=(1 2 3); echo ${arr[@]} ${#arr[@]}
declare -A m; m[a]=1; echo ${m[a]}
case $x in a) echo 1;; b|c) echo 2;; *) echo 3;; esac
for f in *.py; do echo "$f"; done
for ((i = 0; i < 3; i++)); do echo $i; done
while read -r line; do echo "$line"; done < file
until [ -f done ]; do sleep 1; done
if [ $# -gt 0 ]; then echo a; elif [ -d b ]; then echo b; else echo c; fi
f() { echo "$1"; }; f x
function g { local x=1; echo $x; }; g
(cd src && make)
{ echo a; echo b; } > out.txt
cat > file.txt <<'EOF'
some text with $x and `y`
EOF
cat <<EOF
value: $x
EOF
cat <<-EOF | grep v
	value
	EOF
grep x <<< "$text"
diff <(sort a) <(sort b)
x=$(git rev-parse HEAD); echo $x
export PATH=$PWD/bin:$PATH
export FOO=bar && make
FOO=bar make test
NODE_ENV=test npx jest --ci
set -euo pipefail; make
trap 'echo done' EXIT; make
time make
! grep -q x file
true && false || echo x
sleep 1 & wait
curl -sS https://example.com/api | jq '.[] | .name'
echo 'it'"'"'s'
echo "a \\"quoted\\" word"
echo $'tab\\there'
printf '%s\\n' a b c
echo {a,b}.txt
ls src/{a,b}/*.py
cp src/{old,new}.py build/
docker compose up -d
docker build -t x .
kubectl get pods -o json
terraform plan
npx tsc --noEmit
yarn install --frozen-lockfile
pnpm -r build
uv run pytest
poetry run mypy src
pip install -r requirements.txt
python3 - <<'EOF'
print("hello")
EOF
node -e 'console.log(1)'
ruff check . && mypy src
black --check .
eslint . --fix
prettier --write 'src/**/*.ts'
gcc -O2 -o main main.c && ./main
cmake -B build && cmake --build build
java -jar app.jar
mvn -q test
gradle build
dotnet test
bundle exec rspec
ps aux | grep node
kill %1
du -sh * | sort -h
df -h
which python3
env | sort
date +%Y-%m-%d
whoami
uname -a
tar czf out.tgz src
tar xzf in.tgz -C build
unzip -q a.zip -d b
xargs -n1 echo < list
find . -type f -print0 | xargs -0 grep -l x
tail -f log.txt & sleep 1; kill $!
command -v git >/dev/null 2>&1 && echo ok
echo "$HOME" "$(pwd)" `date`
test -d build || mkdir build
let x=1+2
((x++))
read -r a b <<< "1 2"
IFS=, read -ra parts <<< "a,b"
shopt -s globstar; ls **/*.py
pushd src > /dev/null; ls; popd > /dev/null
exec 3>&1; echo x >&3
"""


def everyday() -> list[str]:
    """Commands of one or more lines, 300 of them: those above, and the same inside of everyday structures."""
    found: list[str] = []
    open_document = ""
    for line in EVERYDAY.strip("\n").split("\n"):
        if open_document:
            found[-1] += "\n" + line
            open_document = "" if line.strip() == open_document else open_document
            continue
        found.append(line)
        open_document = "EOF" if "<<" in line and "EOF" in line else ""
    frames = ("set -e\n{}", "if true; then\n{}\nfi", "cd src && {}")
    simple = [one for one in found if "\n" not in one]
    framed = [frame.format(one) for frame in frames for one in simple]
    return (found + framed)[:300]


def attempts(ways: list[str], paths: list[str], more: str = "") -> list[str]:
    return [way.replace("P", path) for path in paths for way in ways] + [one for one in more.strip().split("\n") if one]
