"""Completion scripts, made from the commands (`words.every`). A Tab starts a program only to list what exists now."""

import re

from treadle.cli.words import VALUES, CommandWords, Option

BASH = """# Completion of treadle for bash: source <(treadle completion bash)
_treadle_know() {{  # what belongs to the command $1
  commands= options= valued= choices= words=
  case "$1" in
{cases}
  esac
}}
_treadle_list() {{ treadle completion --list "$1" 2>/dev/null | cut -f1; }}
_treadle() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} at=${{COMP_WORDS[0]##*/}}
  local commands options valued choices words word i offered=
  for ((i = 1; i < COMP_CWORD; i++)); do
    _treadle_know "$at"
    word=${{COMP_WORDS[i]}}
    [[ $word == -- ]] && return
    [[ -n $word && " $commands " == *" $word "* ]] && at="$at $word"
  done
  _treadle_know "$at"
  COMPREPLY=()
  if [[ " $valued " == *" $prev "* ]]; then
    case "$prev" in
{values}
    esac
    [[ $choices =~ (^|' ')"$prev="([^' ']*) ]] && offered=${{BASH_REMATCH[2]//,/ }}
    [[ -z $offered ]] && return
  elif [[ $cur == -* ]]; then
    offered=$options
  else
    offered=$commands
    [[ -n $words ]] && offered="$offered $(_treadle_list "$words")"
  fi
  COMPREPLY=($(compgen -W "$offered" -- "$cur"))
}}
complete -o default -F _treadle {programs}
"""

ZSH = """#compdef {programs}
# Completion of treadle for zsh: source <(treadle completion zsh), after compinit.
_treadle_know() {{  # what belongs to the command $1
  commands=() options=() valued=() choices=() kind=
  case "$1" in
{cases}
  esac
}}
_treadle() {{
  local at=${{words[1]:t}} word kind
  local -a commands options valued choices found
  for word in ${{words[2,CURRENT-1]}}; do
    _treadle_know "$at"
    [[ $word == -- ]] && {{ _files; return }}
    [[ -n ${{commands[(r)${{(b)word}}(|:*)]}} ]] && at="$at $word"
  done
  _treadle_know "$at"
  local prev=${{words[CURRENT-1]}} one
  if [[ -n ${{valued[(r)$prev]}} ]]; then
    one=${{choices[(r)$prev=*]}}
    if [[ -n $one ]]; then
      found=(${{(s:,:)one#*=}})
    else
      case "$prev" in
{values}
      esac
    fi
    if (( $#found )); then compadd -a found; else _files; fi
  elif [[ $PREFIX == -* ]]; then
    _describe -o option options
  else
    (( $#commands )) && _describe command commands
    if [[ -n $kind ]]; then
      found=(${{(f)"$(treadle completion --list $kind 2>/dev/null)"}})
      found=(${{found//:/\\\\:}})
      found=(${{found//$'\\t'/:}})
      _describe $kind found
    elif (( ! $#commands )); then
      _files
    fi
  fi
}}
if [[ $funcstack[1] == _treadle ]]; then _treadle "$@"; else compdef _treadle {programs}; fi
"""

FISH = """# Completion of treadle for fish: treadle completion fish | source
set -g __treadle_paths {paths}
function __treadle_at
    set -l typed (commandline -opc)
    set -l at (string replace -r '.*/' '' -- $typed[1])
    for word in $typed[2..-1]
        contains -- "$at $word" $__treadle_paths; and set at "$at $word"
    end
    test "$at" = "$argv[1]"
end
function __treadle_list
    treadle completion --list $argv[1] 2>/dev/null
end
{lines}
"""


def script(shell: str, commands: list[CommandWords]) -> str:
    return {"bash": bash, "zsh": zsh, "fish": fish}[shell](commands)


def _programs(commands: list[CommandWords]) -> str:
    return " ".join(command.path[0] for command in commands if len(command.path) == 1)


def choices(option: Option) -> list[str]:
    """The values an option takes, when its help lists all of them: `[markdown|html|json]`."""
    found = re.fullmatch(r"\[([\w|-]+)\]", option.value)
    return found[1].split("|") if found and "|" in found[1] else []


def _below(command: CommandWords, commands: list[CommandWords]) -> list[tuple[str, str]]:
    """The commands under this one, with their summaries."""
    summaries = {one.path: one.summary for one in commands}
    return [(name, summaries.get((*command.path, name), "")) for name in command.commands]


def _names(command: CommandWords, valued: bool = False) -> list[str]:
    return [name for option in command.options if option.value or not valued for name in option.names]


def bash(commands: list[CommandWords]) -> str:
    cases = []
    for command in commands:
        choosing = [f"{name}={','.join(choices(option))}" for option in command.options for name in option.names]
        known = {
            "commands": " ".join(command.commands),
            "options": " ".join(_names(command)),
            "valued": " ".join(_names(command, valued=True)),
            "choices": " ".join(one for one in choosing if not one.endswith("=")),
            "words": command.words,
        }
        cases.append(
            f'    "{command.name}")\n      ' + " ".join(f'{key}="{one}"' for key, one in known.items()) + " ;;"
        )
    values = [f'      {name}) offered="$(_treadle_list {kind})" ;;' for name, kind in VALUES.items()]
    return BASH.format(cases="\n".join(cases), values="\n".join(values), programs=_programs(commands))


def _single(text: str) -> str:
    """A word in single quotes for fish, where a backslash in them escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


def zsh(commands: list[CommandWords]) -> str:
    def rows(pairs: list[tuple[str, str]]) -> str:
        return " ".join("'" + f"{word}:{what}".replace("'", "'\\''") + "'" for word, what in pairs)

    cases = []
    for command in commands:
        described = [(name, option.help) for option in command.options for name in option.names]
        listed = [
            f"{name}={','.join(found)}"
            for option in command.options
            if (found := choices(option))
            for name in option.names
        ]
        cases.append(
            f"    '{command.name}')\n"
            f"      commands=({rows(_below(command, commands))})\n"
            f"      options=({rows(described)})\n"
            f"      valued=({' '.join(_names(command, valued=True))})\n"
            f"      choices=({' '.join(listed)}) kind={command.words} ;;"
        )
    values = [
        f"        {name}) found=(${{${{(f)\"$(treadle completion --list {kind} 2>/dev/null)\"}}%%$'\\t'*}}) ;;"
        for name, kind in VALUES.items()
    ]
    return ZSH.format(cases="\n".join(cases), values="\n".join(values), programs=_programs(commands))


def fish(commands: list[CommandWords]) -> str:
    lines = []
    for command in commands:
        here = f"complete -c {command.path[0]} -n \"__treadle_at '{command.name}'\""
        for name, what in _below(command, commands):
            lines.append(f"{here} -f -a {name} -d {_single(what)}")
        if command.words:
            lines.append(f"{here} -f -a '(__treadle_list {command.words})'")
        lines += [f"{here} {_fish_option(option)}" for option in command.options]
    paths = " ".join(_single(command.name) for command in commands if len(command.path) > 1)
    return FISH.format(paths=paths, lines="\n".join(lines))


def _fish_option(option: Option) -> str:
    parts = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    kind = next((VALUES[name] for name in option.names if name in VALUES), "")
    if found := choices(option):
        parts.append(f"-x -a {_single(' '.join(found))}")
    elif kind:
        parts.append(f"-x -a '(__treadle_list {kind})'")
    elif option.value:
        parts.append("-r")
    return " ".join([*parts, *([f"-d {_single(option.help)}"] if option.help else [])])
