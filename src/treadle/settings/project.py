"""What a project says about itself: AGENTS.md and CLAUDE.md, skills, and slash commands written as markdown; and the
files that a text means by `@path`.

All of it is text for the model or for a person to send, and nothing of it runs, so it needs no trust. It is searched
from the working directory up to the top of the repository, and in the user's own settings; sizes are bounded, and a
symlink that leads out of its place is not followed.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from treadle.errors import ConfigError
from treadle.io.files import read_at_most, read_if_there
from treadle.io.paths import config_file
from treadle.session import Instructions, Subagent
from treadle.settings import trust
from treadle.settings.claude import FORBIDDING, Reading, user_directory
from treadle.wire.oneshot.arguments import subagent

# Finds which files a text means by `@path`. Pure.

_MENTION = r"""(?<![^\s(\[{"'])@(?:"([^"\n]+)"|([^\s"@]+))"""
_FENCED = r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)"
_CODE = rf"(?s){_FENCED}|`[^`\n]*`"
_INDENTED = r"(?:\A|(?<=\n\n))(?:(?: {4}|\t)[^\n]*(?:\n|\Z))+"
_COMMENT = re.compile(rf"(?sm)({_FENCED})|^ {{0,3}}<!--.*?-->[ \t]*\n?")
_BINARY = re.compile(r"(?i)\.(?:png|jpe?g|gif|webp|bmp|ico|pdf|zip|t?gz|tar|jar|exe|so|o|bin|mp[34]|wav|woff2?|ttf)$")
_AFTER = ".,;:!?)]}'*_"


def mentioned(text: str) -> Iterator[tuple[str, ...]]:
    """For each `@path` outside of code, the possible paths: as written, or without the punctuation after it."""
    for quoted, plain in re.findall(_MENTION, re.sub(_CODE, " ", text)) if "@" in text else ():
        yield (quoted,) if quoted else tuple(dict.fromkeys(filter(None, (plain, plain.rstrip(_AFTER)))))


ALL = Instructions()
FILE_CAP = 64 * 1024
KNOWLEDGE_CAP = 128 * 1024
CUT = "\n[cut here: it is too long]"
MAX_ENTRIES = 200
KNOWLEDGE = ("agents.md", "claude.md", "claude.local.md")
THEIRS = ".claude/CLAUDE.md"
IMPORT_DEPTH = 4
"""How many levels deep files may include others."""
_ROOT = "${CLAUDE_PLUGIN_ROOT}"
OURS = (".treadle", ".agents")
FOLDERS = (*OURS, ".claude")


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill, or a command written as markdown: the model may load it, a person may type it."""

    name: str
    description: str
    path: str
    """Where its text is."""
    command: bool = False
    by_model: bool = True
    """Whether the model may load it: `disable-model-invocation` reserves it for people."""
    reading: Reading = Reading()
    by_person: bool = True
    """Whether it is a slash command, too: not so with `user-invocable: false`."""
    root: str = ""
    """The directory of the plugin that it belongs to."""
    first: int = 1
    """The number of its first argument."""
    hint: str = ""
    """What its arguments are, as `argument-hint` says."""


def expand(template: str, arguments: str, first: int = 1) -> str:
    """The text to send: `$ARGUMENTS`, `$ARGUMENTS[0]` and `$1` to `$9` replaced, or the arguments appended when it has
    none of them. `first`: the number of the first argument, 0 in files of Claude Code."""
    try:
        words = shlex.split(arguments)
    except ValueError:  # a quote that is not closed
        words = arguments.split()

    def value(found: re.Match[str]) -> str:
        if found[0] == "$ARGUMENTS":
            return arguments
        number = int(found[1]) if found[1] else int(found[2]) - first
        return words[number] if 0 <= number < len(words) else ""

    text, replaced = re.subn(r"\$(?:ARGUMENTS\[(\d{1,3})\]|ARGUMENTS|(\d)(?!\d))", value, template)
    return text if replaced or not arguments.strip() else f"{text.rstrip()}\n\n{arguments}"


def _first(folder: str) -> int:
    """The number of the first argument in files of this folder: ours count from 1."""
    above = os.path.dirname(folder)
    return int(os.path.basename(above) in OURS or above == os.path.dirname(config_file()))


def _read(kind: str, header: dict[str, Any], text: str = "") -> Reading:
    """What of a file is used. Hooks in it forbid only where they are of an event that can."""
    harmless = "hooks" in header and not any(event in str(header["hooks"]) for event in FORBIDDING)
    found = Reading.of(kind, [key for key in header if key != "hooks" or not harmless])
    more = ["hooks"] * harmless + ["!`command`"] * bool(re.search(r"(?m)(?:^|\s)!`[^`\n]+`|^```!", text))
    more += ["${CLAUDE_SESSION_ID}"] * ("${CLAUDE_SESSION_ID}" in text)
    return found + Reading(unused=tuple(more))


def _places(cwd: str, instructions: Instructions) -> list[str]:
    """Where the project's texts are; empty when they are not wanted or the repository belongs to another user."""
    if not instructions.uses("project") or trust.foreign_owner(cwd) is not None:
        return []
    return list(trust.up_to_top(cwd))


def has_words(cwd: str) -> bool:
    """Whether the project has any text that could be used."""
    names = {*KNOWLEDGE, *FOLDERS}
    return any(name.lower() in names for place in trust.up_to_top(cwd) for name in _listing(place))


def knowledge_parts(cwd: str, instructions: Instructions = ALL) -> list[tuple[str, str]]:
    """The user's own AGENTS.md, then those of the project from its top down to here, as far as there is room: each as
    (path, text)."""
    parts: list[tuple[str, str]] = []
    seen: set[str] = set()
    room = KNOWLEDGE_CAP
    for path, text in knowledge_files(cwd, instructions):
        if text.strip() in seen or not text.strip():
            continue
        seen.add(text.strip())
        text = _cut(text, min(room, FILE_CAP))
        room -= len(text)
        parts.append((path, text.strip()))
        if room <= 0:
            break
    return parts


def skills(cwd: str, instructions: Instructions = ALL) -> list[Skill]:
    """All wanted commands and skills, by name; the one nearest to the working directory wins, of two there the skill.
    `commands/git/pr.md` is `git:pr`."""
    found: dict[str, Skill] = {}
    for prefix, top, folder in _folders(cwd, "skills", instructions):
        for name in sorted(_listing(folder)):
            if instructions.skills is None or prefix + name in instructions.skills:
                _add_skill(found, prefix + name, os.path.join(folder, name, "SKILL.md"), prefix and top, top)
    for prefix, top, folder in _folders(cwd, "commands", instructions) if instructions.commands else ():
        for path in _markdown_below(folder):
            name = os.path.relpath(path, folder if path != folder else os.path.dirname(folder))
            name = prefix + name.removesuffix(".md").replace(os.sep, ":")
            _add_skill(found, name, path, prefix and top, top, command=True)
    return list(found.values())


def _add_skill(found: dict[str, Skill], name: str, path: str, root: str, top: str, command: bool = False) -> None:
    text = read_text(path, top) if name not in found and len(found) < 2 * MAX_ENTRIES else None
    if text is None:
        return
    header, body = front_matter(text)
    lines = (line.strip().lstrip("# ") for line in body.splitlines())
    about = f"{words(header, 'description') or next(filter(None, lines), '')} {words(header, 'when_to_use')}"
    folder = os.path.dirname(path if command else os.path.dirname(path))
    found[name] = Skill(
        name=name,
        command=command,
        reading=_read("skill", header, body),
        description=_cut(about.strip(), 1024),
        path=path,
        by_model=words(header, "disable-model-invocation").lower() != "true",
        by_person=words(header, "user-invocable").lower() != "false",
        root=root,
        first=_first(folder),
        hint=words(header, "argument-hint"),
    )


def offer(found: list[Skill]) -> str:
    """The part of the system prompt that lists the skills for the model."""
    if not found:
        return ""
    lines = [f"- {skill.name}: {skill.description or 'no description'}" for skill in found]
    return "Skills, to be loaded with the skill tool when a task fits one:\n" + "\n".join(lines)


def load_skill(skill: Skill, arguments: str = "") -> str:
    """What the model reads when it loads a skill, or when a person types it."""
    folder = os.path.dirname(skill.path)
    text = front_matter(read_text(skill.path, folder) or "")[1].strip()
    text = text.replace("${CLAUDE_SKILL_DIR}", folder).replace(_ROOT, skill.root or _ROOT)
    return expand(text if skill.command else f"Files of this skill are in {folder}\n\n{text}", arguments, skill.first)


def agents(cwd: str, instructions: Instructions = ALL, broken: list[str] | None = None) -> list[Subagent]:
    """Subagents from markdown files, `agents/NAME.md`; the nearest wins. What cannot be used is listed in `broken`."""
    found: dict[str, Subagent] = {}
    for prefix, top, folder in _folders(cwd, "agents", instructions):
        for path in _markdown_below(folder):
            text = read_text(path, top)
            if text is None or len(found) >= MAX_ENTRIES:
                continue
            header, prompt = front_matter(text)
            own = words(header, "name") or ("" if _first(folder) == 0 else os.path.basename(path).removesuffix(".md"))
            entry: dict[str, Any] = {**header, "description": words(header, "description"), "prompt": prompt.strip()}
            if words(header, "maxTurns").isdecimal():
                entry["maxTurns"] = int(header["maxTurns"])
            try:
                if not own:
                    raise ConfigError("its front matter has no name")
                entry["prompt"] += "".join(f"\n\n{text}" for text in _preloaded(header, cwd, instructions))
                found.setdefault(prefix + own, subagent(prefix + own, entry))
                if broken is not None and (notice := _read("agent", header).notice):
                    broken.append(f"{path}: {notice}")
            except ConfigError as error:
                if broken is not None:
                    broken.append(f"{path} is not used: {error}")
    return list(found.values())


def _preloaded(header: dict[str, Any], cwd: str, instructions: Instructions) -> Iterator[str]:
    """The skills that a subagent begins with."""
    known = {skill.name: skill for skill in skills(cwd, instructions)} if header.get("skills") else {}
    for name in listed(header.get("skills")):
        if name not in known:
            raise ConfigError(f"it asks for the skill {name!r}, which does not exist")
        yield load_skill(known[name])


def output_style(name: str | None, cwd: str, instructions: Instructions = ALL) -> str | None:
    """What an output style says; "" for the usual one, None when there is no such style."""
    if not name or name.lower() == "default":
        return ""
    for prefix, top, folder in _folders(cwd, "output-styles", instructions):
        for path in _markdown_below(folder):
            text = read_text(path, top)
            if text is None:
                continue
            header, body = front_matter(text)
            known = (words(header, "name"), os.path.basename(path).removesuffix(".md"))
            if name.lower() in (f"{prefix}{one}".lower() for one in known):
                return body.strip()
    return None


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The YAML between two `---` at the top, its values as they are written, less what is empty; and the rest."""
    found = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)(?:^|\n)---[ \t]*(?:\r?\n|\Z)", text, re.S | re.M)
    if found is None:
        return {}, text
    import yaml  # for those who have such files

    header = re.sub(r"\r\n?", "\n", found[1]).replace("\t", "  ")
    for form in (header, _VALUE.sub(_quoted, header)):
        try:
            table = yaml.load(form, getattr(yaml, "CBaseLoader", yaml.BaseLoader))
        except (yaml.YAMLError, ValueError, RecursionError):
            continue
        values = table if isinstance(table, dict) else {}
        # `tools: null` leaves a subagent without tools, as in Claude Code; `tools:` alone says nothing.
        given = {str(key): value for key, value in values.items() if value not in _NOTHING or key == "tools" and value}
        return given, text[found.end() :]
    return {"front matter that is no YAML": True}, text[found.end() :]


_NOTHING: tuple[Any, ...] = ("", "~", "null", None, {})
_VALUE = re.compile(r"(?m)^([A-Za-z_-]+):[ ]+(.+)$")


def _quoted(found: re.Match[str]) -> str:
    """A value that people write without the quotes that YAML wants, as Claude Code reads it: `Use it so: like this`."""
    value = found[2].strip()
    if value[0] in "\"'" and value[-1] == value[0] or not re.search(r"[{}\[\]*&#!|>%@`]|: ", value):
        return found[0]
    return f"{found[1]}: {msgspec.json.encode(value).decode()}"


def words(header: dict[str, Any], key: str) -> str:
    """A value that is one text; a list or a table is none."""
    value = header.get(key)
    return value if isinstance(value, str) else ""


def listed(value: Any) -> list[str]:
    """A list, or a text with commas."""
    parts = re.split(r",(?![^{}]*\})", value) if isinstance(value, str) else value if isinstance(value, list) else ()
    return [part.strip() for part in parts if isinstance(part, str) and part.strip()]


def knowledge_files(cwd: str, instructions: Instructions = ALL) -> Iterator[tuple[str, str]]:
    """(path, text) of each: the user's own first, then from the top of the project down to here."""
    if instructions.uses("user"):
        for own in (os.path.dirname(config_file()), user_directory(os.environ)):
            yield from _of_directory(own, own, instructions, own)
    directories = _places(cwd, instructions)
    for directory in reversed(_above(directories[-1]) if directories else []):
        yield from _of_directory(directory, directory, instructions, "", KNOWLEDGE[1:])
    for directory in reversed(directories):
        yield from _of_directory(directory, directories[-1], instructions, os.path.join(directory, ".claude"))


def _above(top: str) -> list[str]:
    """The directories above a project that belong to the same person, whose CLAUDE.md counts as in Claude Code."""
    found, directory = [], os.path.dirname(top)
    while directory != os.path.dirname(directory):
        if trust.owned(directory):
            found.append(directory)
        directory = os.path.dirname(directory)
    return found


def _of_directory(
    directory: str, top: str, instructions: Instructions, rules: str, wanted: tuple[str, ...] = KNOWLEDGE
) -> Iterator[tuple[str, str]]:
    """The texts of one directory, and those that they include; `rules` has a folder `rules`, if there is one."""
    names = {name.lower(): name for name in sorted(_listing(directory), reverse=True)}
    if instructions.sources is not None and "local" not in instructions.sources:
        wanted = tuple(name for name in wanted if ".local." not in name)
    paths = [os.path.join(directory, names[name]) for name in wanted if name in names]
    paths += [os.path.join(directory, THEIRS)] if ".claude" in names else []
    for path in paths:
        text = read_text(path, top)
        if text is not None:
            text = _COMMENT.sub(lambda found: found[1] or "", text)  # notes of people for people
            yield path, text
            # The person's own may include what they have anywhere; a project's nothing outside of it.
            yield from _imported(path, text, "/" if rules == top else top, {os.path.realpath(path)})
    yield from ((path, text) for path, text, when in _rules(rules, top) if not when)


def _rules(folder: str, top: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(path, text, the files that it is about; none: all) of each file in `rules` there."""
    for path in _markdown_below(os.path.join(folder, "rules")) if folder else ():
        if (text := read_text(path, top)) is not None:
            header, body = front_matter(text)
            yield path, body.strip(), tuple(listed(header.get("paths")))


class DeeperKnowledge:
    """What the directories of the files that a model works on say, and rules about such files: told once, with the
    result of the call that reads or changes one."""

    def __init__(self, cwd: str, instructions: Instructions) -> None:
        self._cwd, self._instructions, self._shown = os.path.realpath(cwd), instructions, set[str]()
        self._places = _places(cwd, instructions)

    def about(self, paths: Iterable[str]) -> str:
        found = [each for path in paths if self._places for each in self._of_file(os.path.realpath(path))]
        new = [(path, text) for path, text in found if path not in self._shown and text.strip()]
        self._shown |= {path for path, _ in new}
        return "".join(f"\n\n# {path}\n\n{_cut(text.strip(), FILE_CAP)}" for path, text in dict(new).items())

    def _of_file(self, file: str) -> Iterator[tuple[str, str]]:
        from treadle.policy.patterns import match

        top = self._places[-1]
        if not file.startswith(f"{self._cwd}{os.sep}"):
            return
        parts = os.path.relpath(os.path.dirname(file), self._cwd).split(os.sep)
        for depth in range(len(parts)):
            if parts != ["."]:
                yield from _of_directory(os.path.join(self._cwd, *parts[: depth + 1]), top, self._instructions, "")
        for place in self._places:
            for path, text, when in _rules(os.path.join(place, ".claude"), top):
                if any(match(pattern, os.path.relpath(file, place)) for pattern in when):
                    yield path, text


def _imported(path: str, text: str, top: str, known: set[str], depth: int = 1) -> Iterator[tuple[str, str]]:
    """The files that a text includes with `@path`, relative to it, and those that they include."""
    text = re.sub(r"[*_]{1,3}@", " @", re.sub(_CODE, " ", re.sub(_INDENTED, "", text)))
    for written in re.findall(r"(?<!\S)@((?:\\ |[^\s\\])+)", text):
        name = written.replace("\\ ", " ").partition("#")[0].rstrip("*_")
        there = os.path.join(os.path.dirname(path), os.path.expanduser(name))
        real = os.path.realpath(there)
        if not _BINARY.search(name) and real not in known and (found := read_text(there, top)) is not None:
            known.add(real)
            yield os.path.normpath(there), found
            if depth < IMPORT_DEPTH:
                yield from _imported(there, found, top, known, depth + 1)


def _folders(cwd: str, kind: str, instructions: Instructions) -> Iterator[tuple[str, str, str]]:
    """(what names begin with, the place that links may not leave, a folder of skills or commands), nearest first; but
    the person's commands and skills of Claude Code go before those of a project, as there."""
    directories = _places(cwd, instructions)
    theirs = user_directory(os.environ)
    of_claude = [("", theirs, os.path.join(theirs, kind))] if instructions.uses("user") else []
    yield from of_claude if kind in ("commands", "skills") else ()
    for directory in directories:
        for folder in FOLDERS:
            yield "", directories[-1], os.path.join(directory, folder, kind)
    if instructions.uses("user"):
        own = os.path.dirname(config_file())
        yield "", own, os.path.join(own, kind)
        home = os.path.expanduser("~")
        yield "", home, os.path.join(home, ".agents", kind)
    yield from of_claude
    for plugin in instructions.plugins:
        manifest = _manifest(plugin)
        name = manifest.get("name")
        name = name if isinstance(name, str) and name else os.path.basename(plugin.rstrip("/"))
        more = manifest.get("outputStyles" if kind == "output-styles" else kind) or []
        for place in (kind, *(more if isinstance(more, list) else [more])):
            if isinstance(place, str):
                yield f"{name}:", plugin, os.path.normpath(os.path.join(plugin, place))


def _manifest(directory: str) -> dict[str, Any]:
    data = read_if_there(os.path.join(directory, ".claude-plugin", "plugin.json"))
    try:
        table = msgspec.json.decode(data) if data is not None else {}
    except msgspec.DecodeError:
        table = {}
    return table if isinstance(table, dict) else {}


def _listing(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _markdown_below(folder: str) -> Iterator[str]:
    number = 0
    if folder.endswith(".md") and os.path.isfile(folder):  # as a plugin's manifest may name it
        yield folder
    for directory, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            number += 1
            if number > 10 * MAX_ENTRIES:
                return
            if name.endswith(".md"):
                yield os.path.join(directory, name)


def read_text(path: str, top: str) -> str | None:
    """The text of a plain file, unless a link leads out of `top`; an unreadable file counts as missing."""
    real, top = os.path.realpath(path), os.path.realpath(top)
    if not real.startswith(top.rstrip("/") + "/") or not os.path.isfile(real):
        return None
    try:
        return _cut(read_at_most(real, FILE_CAP + 1).decode(errors="replace"), FILE_CAP)
    except OSError:
        return None


def _cut(text: str, cap: int) -> str:
    return text if len(text) <= cap else text[: max(cap, 0)] + CUT
