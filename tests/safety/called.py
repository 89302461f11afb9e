"""Ways to call the program `rm`, written without looking at the code that reads commands: judged, never run."""

# By how the program is named.
NAMED = r"""
/usr/bin/rm f
/usr//bin/rm f
/bin/../bin/rm f
../../../../../../../../../../bin/rm f
$(which rm) f
$(command -v rm) f
`type -P rm` f
$(echo rm) f
$(printf 'r%s' m) f
`echo rm` f
"$(echo rm)" f
r$(echo m) f
r${x}m f
r${x:-m} f
${x:-rm} f
${x-rm} f
${x:=rm} f
x=rm; "$x" f
x=rm; ${x} f
x=r; y=m; $x$y f
x=mr; ${x:1:1}${x:0:1} f
x=xrmx; y=${x#x}; ${y%x} f
x=RM; ${x,,} f
x="rm f"; $x
x='rm f'; eval $x
x='rm f'; eval "$x"
a=(rm f); "${a[@]}"
a=(rm f); ${a[*]}
a=(x rm); ${a[1]} f
declare -A m=([k]=rm); ${m[k]} f
set -- rm f; "$@"
set -- rm f; $*
set -- rm f; $1 $2
printf -v x %s rm; $x f
read x <<< rm; $x f
read -r x y <<< 'rm f'; $x $y
mapfile -t a <<< rm; ${a[0]} f
declare x=rm; $x f
export x=rm; $x f
g() { local x=rm; $x f; }; g
typeset -n n=x; x=rm; $n f
x=rm; y=x; ${!y} f
{rm,f}
{rm,-f,f}
r{m,} f
/bin/{rm,} f
/bin/r[m] f
/bin/r? f
/???/rm f
/b*n/rm f
/usr/bin/r[l-n] f
/usr/bin/[r]m f
$'\x72m' f
$'\162\155' f
$'\u0072m' f
$'r\155' f
"r"m f
'r'"m" f
r"m" f
\r\m f
r''""m f
"/bin/rm" f
/bin/r'm' f
~root/../bin/rm f
~/../bin/rm f
PATH=/bin; rm f
PATH=/bin rm f
IFS=,; x=rm,f; $x
IFS=x; c=rmxf; $c
cd /bin && ./rm "$OLDPWD/f"
pushd /bin > /dev/null; ./rm "$OLDPWD/f"
(cd /bin; ./rm "$OLDPWD/f")
hash -p /bin/rm zap; zap f
hash -p /bin/rm z && z f
alias zap=rm; shopt -s expand_aliases; eval 'zap f'
zap() { rm "$@"; }; zap f
zap() { "$@"; }; zap rm f
function zap { command rm "$@"; }; zap f
zap() { $1 $2; }; zap rm f
zap() ( rm f ); zap
zap() { rm f; }; export -f zap; bash -c zap
ln -s /bin/rm zap; ./zap f
cp /bin/rm zap; ./zap f
cp "$(which rm)" zap && ./zap f
install /bin/rm zap; ./zap f
cat /bin/rm > zap; chmod +x zap; ./zap f
"""

# By what calls it.
STARTED = r"""
exec rm f
exec -a x rm f
exec -c rm f
(exec rm f)
command -p rm f
builtin command rm f
builtin eval 'rm f'
builtin exec rm f
env rm f
env -i rm f
env -i /bin/rm f
env -u X rm f
env -S 'rm f'
env -S'rm f'
env --split-string='rm f'
env -iS 'rm f'
env - rm f
env -C . rm f
env --chdir=. rm f
env A=1 B=2 rm f
env env env rm f
nice -n 5 rm f
nice -5 rm f
nice --adjustment=5 rm f
ionice rm f
ionice -c 3 rm f
ionice -c3 -t rm f
chrt -b 0 rm f
taskset 1 rm f
taskset -c 0 rm f
setsid rm f
setsid -w rm f
setsid --wait rm f
nohup rm f
stdbuf -o0 rm f
stdbuf -oL -eL rm f
stdbuf --output=0 rm f
timeout 9 rm f
timeout -k 1 9 rm f
timeout -s KILL 9 rm f
timeout --signal=KILL 9 rm f
timeout --foreground 9 rm f
timeout --preserve-status 9s rm f
time rm f
time -p rm f
/usr/bin/env rm f
\env rm f
"env" rm f
'nice' rm f
nice nice nice rm f
env nice timeout 9 rm f
nohup setsid -w rm f
unshare rm f
unshare -r rm f
setpriv --no-new-privs rm f
setpriv --nnp rm f
setarch x86_64 rm f
setarch -R rm f
linux64 rm f
x86_64 rm f
prlimit --nofile=64 rm f
prlimit -n64 rm f
flock lock rm f
flock lock -c 'rm f'
flock -n lock rm f
flock --nonblock lock --command 'rm f'
flock -x lock sh -c 'rm f'
runuser -u root -- rm f
runuser -c 'rm f'
su -c 'rm f'
su root -c 'rm f'
su - root -c "rm $PWD/f"
chroot / /bin/rm "$PWD/f"
chroot / sh -c "rm $PWD/f"
nsenter -t $$ rm f
script -qc 'rm f' /dev/null
script -q -c 'rm f' /dev/null
script --quiet --command 'rm f' /dev/null
script -qec 'rm f' /dev/null
watch -g -n 0.1 rm f
strace -o /dev/null rm f
strace -qq -e trace=none rm f
ltrace -o /dev/null rm f
gdb -batch -ex run --args rm f
gdb -batch -ex 'shell rm f'
gdb -batch -ex '!rm f'
perf stat -o /dev/null rm f
valgrind -q rm f
catchsegv rm f
faketime now rm f
parallel rm ::: f
parallel -j1 rm {} ::: f
echo f | parallel rm
xargs rm <<< f
echo f | xargs rm
echo f | xargs -n1 rm
echo f | xargs -I{} rm {}
echo f | xargs -I % sh -c 'rm %'
echo f | xargs -i rm {}
echo f | xargs --replace rm {}
echo f | xargs -P2 -n 1 rm -f
echo f | xargs -d '\n' rm
printf 'f\0' | xargs -0 rm
echo rm f | xargs env
echo rm f | xargs -t nice
echo 'rm f' | xargs -I{} sh -c {}
echo 'rm f' | xargs -d '\n' sh -c
xargs -a <(echo f) rm
find . -name f -exec rm {} \;
find . -name f -exec rm {} +
find . -name f -execdir rm {} \;
find . -name f -ok rm {} \; <<< y
find . -name f -exec sh -c 'rm "$1"' x {} \;
find . -name f -exec env rm {} ';'
find . -name f -print0 | xargs -0 rm --
find . -name f | while read x; do rm "$x"; done
find . -name f -exec bash -c 'rm "$0"' {} \;
find /bin/rm -exec {} f \;
fd -x rm f
start-stop-daemon --start --exec /bin/rm -- "$PWD/f"
systemd-run --wait -q rm "$PWD/f"
busybox rm f
busybox sh -c 'rm f'
busybox env rm f
busybox nice rm f
toybox rm f
/lib64/ld-linux-x86-64.so.2 /bin/rm f
/lib*/x86_64-linux-gnu/ld-linux-x86-64.so.2 /bin/rm f
coproc rm f; wait
coproc { rm f; }; wait
rm f &
{ rm f; } &
(rm f) & wait
trap 'rm f' EXIT
trap 'rm f' EXIT; exit 0
trap "rm f" 0
trap 'rm f' DEBUG; true
trap 'rm f' ERR; false
trap 'rm f' USR1; kill -USR1 $$
trap -- 'rm f' EXIT
if true; then rm f; fi
if ! false; then rm f; fi
if rm f; then :; else :; fi
[ -e f ] && rm f
[[ -e f ]] && rm f
test -e f && rm f
[ -e x ] || rm f
(( 1 )) && rm f
((1)) && rm f
until ! rm f; do break; done
while ! rm f; do :; done
for x in f; do rm $x; done
for x in rm; do $x f; done
for x do :; done; rm f
for ((i=0;i<1;i++)); do rm f; done
for ((i=0;i<1;i++)) { rm f; }
select x in f; do rm $x; break; done <<< 1
case x in x) rm f;; esac
case x in (x) rm f;; esac
case f in *) rm f; esac
case x in y) ;; *) rm f;& z) ;; esac
{ rm f; }
( rm f )
((rm f) )
! rm f
! ! rm f
: $(rm f)
: `rm f`
: "$(rm f)"
: "`rm f`"
: ${x:-$(rm f)}
: ${x:-`rm f`}
: ${x:+y} $(rm f)
: $((1+$(rm f; echo 1)))
: $[1+$(rm f; echo 1)]
: "${x:-"$(rm f)"}"
: <(rm f); sleep 0.1
cat <(rm f)
true > >(rm f); sleep 0.1
x=$(rm f)
x=`rm f`
x="$(rm f)"
x=(1 $(rm f))
x[$(rm f; echo 0)]=1
export x=$(rm f)
declare x=$(rm f)
readonly x=$(rm f)
x+=$(rm f)
x=$(echo $(rm f))
x=$(echo `rm f`)
echo "a $(echo "b $(rm f)")"
cat <<< $(rm f)
cat <<< "$(rm f)"
bash <<< 'rm f'
sh <<< "rm f"
echo rm f | sh
echo 'rm f' | bash
printf 'rm f' | sh
printf '%s %s' rm f | sh
echo 'mr f' | sed 's/mr/rm/' | sh
echo 'eq s' | tr 'eqs' 'rmf' | sh
echo cm0gZg== | base64 -d | sh
echo 726d2066 | xxd -r -p | sh
printf '\162\155 f' | sh
echo 'f mr' | rev | sh
bash -c 'rm f'
bash -c "rm f"
bash -c rm\ f
bash -c '"$@"' x rm f
bash -c '$0 f' rm
bash -c '$0 $1' rm f
bash -c 'rm $0' f
bash -lc 'rm f'
bash -ic 'rm f'
bash -xc 'rm f'
bash -ec 'rm f'
bash -o errexit -c 'rm f'
bash --norc -c 'rm f'
bash --posix -c 'rm f'
bash +x -c 'rm f'
bash -c 'bash -c "rm f"'
bash -c 'eval "rm f"'
bash -s <<< 'rm f'
bash /dev/stdin <<< 'rm f'
bash <(echo rm f)
sh <(echo rm f)
source <(echo rm f)
. <(echo rm f)
. /dev/stdin <<< 'rm f'
source /dev/stdin <<< 'rm f'
dash -c 'rm f'
/bin/sh -c 'rm f'
sh -c 'rm f' sh
sh -c -- 'rm f'
sh -ec 'rm f'
rbash -c 'rm f'
mksh -c 'rm f'
fish -c 'rm f'
csh -c 'rm f'
pwsh -c 'rm f'
echo 'rm f' > s; sh s
echo 'rm f' > s; bash ./s
echo 'rm f' > s; . ./s
echo 'rm f' > s; source s
echo 'rm f' > s; chmod +x s; ./s
printf '#!/bin/sh\nrm f\n' > s; chmod 755 s; ./s
echo 'rm f' > s; bash < s
echo 'rm f' > s; cat s | bash
echo 'rm f' > s; eval "$(cat s)"
echo 'rm f' > s; BASH_ENV=s bash -c true
echo 'rm f' > s; ENV=./s sh -i < /dev/null
echo 'rm f' | tee s > /dev/null; sh s
eval rm f
eval 'rm' 'f'
eval "rm f"
eval "eval 'rm f'"
eval $'rm\x20f'
eval $(echo rm f)
eval "$(echo cm0gZg== | base64 -d)"
eval -- rm f
eval "r""m f"
eval r\\m f
eval 'x=rm; $x f'
PROMPT_COMMAND='rm f' bash -i < /dev/null
mapfile -C 'rm f;:' -c 1 x <<< y
readarray -C 'rm f;:' -c 1 x <<< y
compgen -C 'rm f' > /dev/null
compgen -W '$(rm f)'
complete -C 'rm f' zz
test -v 'a[$(rm f)]'
[[ -v 'a[$(rm f)]' ]]
printf -v 'a[$(rm f)]' x
let 'a[$(rm f)]=1'
declare -i x='a[$(rm f)]'
unset 'a[$(rm f)]'
read 'a[$(rm f)]' <<< 1
x='a[$(rm f)]'; echo $((x))
x='a[$(rm f)]'; [[ $x -eq 0 ]]
x='a[$(rm f)]'; (( x ))
x='$(rm f)'; echo "${x@P}"
PS4='$(rm f)'; set -x; true
git -c alias.z='!rm f' z
git -c core.pager='rm f' -p log
git -c core.editor='rm f #' commit --allow-empty
git -c core.fsmonitor='rm f' status
git -c diff.external='rm f #' diff --no-index f /dev/null
git config alias.z '!rm f'; git z
git config core.fsmonitor 'rm f'; git status
git bisect start; git bisect run rm f
git submodule foreach 'rm f'
git rebase -x 'rm f' HEAD~1
git rebase --exec 'rm f' --root
git filter-branch -f --tree-filter 'rm f' HEAD
GIT_EDITOR='rm f #' git commit --allow-empty
GIT_PAGER='rm f' git -p log
GIT_EXTERNAL_DIFF='rm f #' git diff --no-index f /dev/null
GIT_SSH_COMMAND='rm f #' git ls-remote ssh://x/y
PAGER='rm f #' man ls
EDITOR='rm f #' git commit --allow-empty
make -f - <<< $'a:\n\trm f'
make --eval $'a:\n\trm f' a
printf 'a:\n\trm f\n' > Makefile; make
make -f <(printf 'a:\n\trm f\n')
awk 'BEGIN { system("rm f") }'
awk 'BEGIN{system("rm" " f")}'
awk 'BEGIN { "rm f" | getline }'
awk 'BEGIN { print "x" | "rm f" }'
echo rm f | awk '{ system($0) }'
awk -f <(echo 'BEGIN{system("rm f")}')
gawk 'BEGIN { system("rm f") }'
mawk 'BEGIN { system("rm f") }'
sed '1e rm f' <<< x
sed 's/.*/rm f/e' <<< x
sed -e '1e rm f' <<< x
sed -n 'e rm f' <<< x
sed --expression='1e rm f' <<< x
perl -e 'system "rm f"'
perl -e 'system("rm", "f")'
perl -e 'exec "rm f"'
perl -e '`rm f`'
perl -e 'qx{rm f}'
perl -e 'open(F, "rm f |")'
perl -Mstrict -e 'system qw(rm f)'
perl -ne 'system "rm f"' <<< x
python3 -c 'import os; os.system("rm f")'
python3 -c 'import subprocess; subprocess.run(["rm", "f"])'
python3 -c 'import subprocess as s; s.call("rm f", shell=True)'
python3 -c "import os; os.popen('rm f').read()"
python3 -c 'import os; os.execlp("rm", "rm", "f")'
python3 -c '__import__("os").system("rm"+" f")'
python3 -c 'import os; os.spawnlp(os.P_WAIT, "rm", "rm", "f")'
python3 -c 'import os; os.system("r" + "m f")'
python3 -c 'import pty; pty.spawn(["rm", "f"])'
python3 - <<< 'import os; os.system("rm f")'
python3 <<< 'import os; os.system("rm f")'
echo 'import os; os.system("rm f")' | python3
python3 <(echo 'import os; os.system("rm f")')
echo 'import os; os.system("rm f")' > s.py; python3 s.py
node -e 'require("child_process").execSync("rm f")'
node -p 'require("child_process").execSync("rm f")'
echo 'require("child_process").execSync("rm f")' | node
ruby -e 'system "rm f"'
ruby -e '`rm f`'
lua -e 'os.execute("rm f")'
php -r 'system("rm f");'
tclsh <<< 'exec rm f'
expect -c 'spawn rm f; expect eof'
sqlite3 :memory: '.shell rm f'
sqlite3 :memory: '.system rm f'
sqlite3 <<< '.shell rm f'
psql -c '\! rm f'
mysql -e '\! rm f'
vim -c '!rm f' -c q
vi -es -c '!rm f' -c q
ex -s -c '!rm f' -c q x
ed <<< '!rm f'
echo '!rm f' | ed -s
emacs --batch --eval '(shell-command "rm f")'
less '+!rm f' s
tar cf /dev/null --checkpoint=1 --checkpoint-action=exec='rm f' /etc/passwd
tar cf /dev/null -I 'rm f; cat' /etc/passwd
tar xf x.tar --to-command='rm f'
tar --use-compress-program='rm f #' -cf x.tar /etc/passwd
zip -q x.zip /etc/passwd -T -TT 'rm f #'
rsync -e 'rm f #' x: y
ssh -o ProxyCommand='rm f' x
ssh -oProxyCommand='rm f' x
ssh localhost rm f
scp -S 'rm' x: y
split --filter='rm f' /etc/passwd
sort --compress-program='rm f' -S 1 /etc/passwd
man -P 'rm f #' ls
at now <<< 'rm f'
batch <<< 'rm f'
echo '* * * * * rm f' | crontab -
apt-get -o APT::Update::Pre-Invoke::='rm f' update
apt-get -o DPkg::Pre-Invoke::='rm f' install
npm exec -c 'rm f'
npm exec --call 'rm f'
npm pkg set scripts.z='rm f'; npm run z
npx -c 'rm f'
npx --call 'rm f'
pnpm exec rm f
pnpm dlx rm f
yarn exec rm f
bunx rm f
uv run rm f
uvx rm f
pipx run rm f
pipenv run rm f
poetry run rm f
hatch run rm f
pdm run rm f
rye run rm f
tox -e x -- rm f
bundle exec rm f
mise exec -- rm f
asdf exec rm f
rbenv exec rm f
pyenv exec rm f
cargo watch -x check -s 'rm f'
docker run -v .:/w -w /w x rm f
docker exec x rm f
docker compose run x rm f
podman run x rm f
nix-shell -p x --run 'rm f'
nix run x -- rm f
conda run rm f
direnv exec . rm f
dotenv run rm f
entr rm f <<< f
dbus-run-session rm f
xvfb-run rm f
firejail rm f
proot rm f
fakeroot rm f
eatmydata rm f
torsocks rm f
proxychains rm f
socat - EXEC:'rm f'
socat - SYSTEM:'rm f'
nc -l -e 'rm f'
ncat --exec 'rm f' -l
tmux new -d 'rm f'
screen -dm rm f
dtach -n x rm f
unbuffer rm f
rlwrap rm f
cpulimit -l 50 rm f
chpst rm f
daemonize /bin/rm f
bwrap --dev-bind / / rm f
dumb-init rm f
tini -- rm f
sudo rm f
sudo -n rm f
sudo -u root rm f
sudo -- rm f
sudo -E rm f
sudo -s rm f
sudo -i rm f
sudo A=1 rm f
sudo sh -c 'rm f'
doas rm f
pkexec rm f
gosu root rm f
su-exec root rm f
pm2 start rm -- f
watchexec rm f
nodemon --exec 'rm f'
concurrently 'rm f'
hyperfine 'rm f'
deno eval 'new Deno.Command("rm", {args:["f"]}).outputSync()'
bun -e 'Bun.spawnSync(["rm", "f"])'
R -e 'system("rm f")'
Rscript -e 'system("rm f")'
julia -e 'run(`rm f`)'
octave --eval 'system("rm f")'
gnuplot -e 'system "rm f"'
guile -c '(system "rm f")'
jshell <<< 'Runtime.getRuntime().exec("rm f")'
groovy -e '"rm f".execute()'
erl -noshell -eval 'os:cmd("rm f")' -s init stop
elixir -e 'System.cmd("rm", ["f"])'
ghc -e 'System.Process.callCommand "rm f"'
ocaml <<< 'Sys.command "rm f";;'
m4 <<< 'syscmd(rm f)'
dc -e '!rm f'
gdb -nx -batch -ex 'python import os; os.system("rm f")'
ansible localhost -m command -a 'rm f'
ansible localhost -a 'rm f'
kubectl exec x -- rm f
lxc exec x -- rm f
vagrant ssh -c 'rm f'
gcloud compute ssh x --command='rm f'
just --command rm f
task --dir . rm
openssl engine -t rm; rm f
"""

LINES = [
    "r\\\nm f",
    "{ rm f\n}",
    "true\n\n  rm f\n",
    "cat << E\n$(rm f)\nE",
    "cat << E\n`rm f`\nE",
    "cat <<- E\n\t$(rm f)\n\tE",
    'cat << "E" | sh\nrm f\nE',
    "sh << E\nrm f\nE",
    "bash << 'E'\nrm f\nE",
    "bash -s << E\nx=rm\n\\$x f\nE",
    "cat > s << E; sh s\nrm f\nE",
    "python3 << E\nimport os\nos.system('rm f')\nE",
    "python3 - << 'E'\nimport shutil, subprocess\nsubprocess.run(['rm', 'f'])\nE",
    "perl << 'E'\nsystem 'rm f';\nE",
    "node << 'E'\nrequire('child_process').execSync('rm f')\nE",
    "ed s << E\n!rm f\nE",
    "make -f - << E\na:\n\trm f\nE",
    "ssh x << E\nrm f\nE",
    "sqlite3 << E\n.shell rm f\nE",
    "case x in\nx)\n  rm f\n  ;;\nesac",
    "f1() {\n  rm f\n}\nf1",
    "for x in f\ndo\n  rm $x\ndone",
    "# a comment\nrm f",
    "echo ok # rm\nrm f",
    "echo 'rm' \\\n  x; rm \\\n  f",
]


def ways() -> list[str]:
    return [*NAMED.strip("\n").split("\n"), *STARTED.strip("\n").split("\n"), *LINES]
