"""What is tried: commands that must not succeed, and commands that must not be refused. One a line in `commands`."""

from pathlib import Path


def commands(name: str) -> list[str]:
    return (Path(__file__).parent / "commands" / f"{name}.txt").read_text().splitlines()


# Showing or writing a file that a rule hides or keeps: P is its path...

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
WRITTEN = ["prot.lock", "./prot.lock", "$PWD/prot.lock", "/proc/self/cwd/prot.lock", "pro''t.lock", "dir/../prot.lock"]

# Removing a file, in what can be around it...

AROUND = [*commands("around"), "{} &\nwait", "true\n{}"]
QUOTED_AROUND = ["bash -c {}", "eval {}", "sh -c {}"]

# Calling `rm`, written without looking at the code that reads commands: judged, never run...

IN_LINES = [
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


def calls_of_rm() -> list[str]:
    return [*commands("calls-of-rm"), *IN_LINES]


def everyday() -> list[str]:
    """Commands of one or more lines, 300 of them: those of the file, and the same inside of everyday structures."""
    found: list[str] = []
    open_document = ""
    for line in commands("everyday"):
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


def attempts(ways: str, paths: list[str], more: str = "") -> list[str]:
    """The commands of a file at each path, and more that have theirs."""
    found = [way.replace("P", path) for path in paths for way in commands(ways)]
    return [*found, *commands(more)] if more else found


def escapes(**names: str) -> list[str]:
    """Ways out of a sandbox, each a command that prints GOT when it has found one. They open, and do not write, what is
    the machine's own: a hole would otherwise change it."""
    found = [one for name in ("-writes", "-calls", "-owner", "") for one in commands(f"escapes{name}")]
    for name, value in names.items():
        found = [one.replace(name, value) for one in found]
    return found


CLAIM_WAYS = commands("claims")
"""A hundred ways in which a shell command changes a file that another holds. `@` is that file, such as `held/h7`, and
`#` its number. Its content is `theirs`; `spare` is a file of one's own, `linked` a link to `held`, and the branch
`other` has another version of all."""
ALIAS = "!f() { echo x > $1; }; f"
"""The alias `put`."""


def claim_way(number: int) -> str:
    text = CLAIM_WAYS[number].replace("@@ -1 +1 @@", "\0")
    return text.replace("@", f"held/h{number}").replace("#", str(number)).replace("\0", "@@ -1 +1 @@")
