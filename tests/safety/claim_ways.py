r"""A hundred ways in which a shell command changes a file that another holds.

`@` is that file, such as `held/h7`, and `#` its number. Its content is `theirs`; `spare` is a file of one's own,
`linked` a link to `held`, and the branch `other` has another version of all. `way(number)` is the text of one of them.
"""

WAYS = r"""
echo x > @
echo x >> @
: > @
> @
printf x >| @
echo x | tee @
echo x | tee -a @ >/dev/null
cat /etc/hostname > @
exec 3>@; echo x >&3
{ echo x; } > @
(echo x) > @
cp /etc/hostname @
cp -f spare @
cp spare held/s# && mv held/s# @
mv @ gone-#
rm @
rm -f @
rm -rf @
unlink @
ln -sf /etc/hostname @
ln -f spare @
install -m 644 spare @
dd if=spare of=@ status=none
truncate -s 0 @
touch -d 2001-01-01 @ && echo x >> @
chmod 600 @ && echo x >> @
shred -u @
gzip -f @
sed -i s/theirs/mine/ @
sed -i.bak -e s/theirs/mine/ @
sed -Ei s/theirs/mine/ @
sed --in-place s/theirs/mine/ @
sed -n 'w @' spare
perl -pi -e s/theirs/mine/ @
perl -e 'open(F, ">", "@"); print F 1'
perl -e 'unlink "@"'
python3 -c 'open("@", "w")'
python3 -c 'import os; os.remove("@")'
python3 -c 'import pathlib; pathlib.Path("@").write_text("x")'
printf 'open("@", "w")' | python3
python3 <(printf 'open("@", "w")')
python3 <<< 'open("@", "w")'
awk 'BEGIN { print "x" > "@" }'
awk '{ print "x" > "@" }' spare
sort -o @ spare
sort --output=@ spare
uniq spare @
split -b 100 spare part# && mv part#aa @
find held -name h# -delete
find held -name h# -exec rm {} \;
find held -name h# -exec sh -c 'echo x > "$0"' {} \;
find held -name h# | xargs rm
ls @ | xargs -I{} cp spare {}
echo @ | xargs truncate -s 0
F=@; echo x > $F
F=@; echo x > "$F"
F=@; cp spare "$F"
for f in @; do echo x > "$f"; done
f() { echo x > "$1"; }; f @
while read -r f; do echo x > "$f"; done <<< @
eval 'echo x > @'
eval "$(printf 'echo x > %s' @)"
bash -c 'echo x > @'
sh -c 'rm @'
bash -c "bash -c 'echo x > @'"
env A=1 bash -c 'echo x > @'
timeout 5 rm @
nohup rm @ >/dev/null 2>&1
nice rm @
command rm @
\rm @
/bin/rm @
$(echo rm) @
`echo rm` @
r=rm; $r @
cd held && echo x > h#
cd held; rm h#
(cd held && cp ../spare h#)
pushd held >/dev/null; rm h#
if true; then rm @; fi
case a in a) rm @;; esac
true && rm @
false || rm @
rm @ &
{ rm @; }
! rm @
echo x > held/../@
echo x > ./@
echo x > "$PWD/@"
rm held/h#*
echo x > linked/h#
rm linked/h#
printf -- '--- @\n+++ @\n@@ -1 +1 @@\n-theirs\n+mine\n' | patch -p0
printf -- '--- a/@\n+++ b/@\n@@ -1 +1 @@\n-theirs\n+mine\n' | git apply
ed -s @ <<< $'s/theirs/mine/\nw'
node -e 'require("fs").writeFileSync("@", "x")'
curl -s -o @ file:///etc/hostname
cat <<< x > @
git checkout other -- @
git restore --source=other @
git rm -qf @
git mv @ moved-#
git show other:@ > @
git -C held checkout other -- h#
git -c alias.put='!echo x > @' put
git put @
""".strip().splitlines()
ALIAS = "!f() { echo x > $1; }; f"
"""The alias `put`."""


def way(number: int) -> str:
    text = WAYS[number].replace("@@ -1 +1 @@", "\0")
    return text.replace("@", f"held/h{number}").replace("#", str(number)).replace("\0", "@@ -1 +1 @@")
