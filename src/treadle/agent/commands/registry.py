"""All slash commands by name, and how one is run. `/help` and the reference page are made from this table."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from treadle.agent import project
from treadle.agent.commands import agents, control, history, looking
from treadle.agent.commands.base import SlashCommand, WrongUse, columns, reply
from treadle.errors import TreadleError
from treadle.session import CommandInfo, CommandResult, Instructions, Prompt


class Commanded(looking.SeenSession, control.Controlled, history.RecordedSession, agents.Delegating, Protocol):
    """A session with slash commands: what each group of them needs, and a way to hold back turns meanwhile."""

    def alone(self) -> AbstractAsyncContextManager[None]: ...

    async def expanding(self, name: str, args: str, kind: str) -> None: ...


async def run(session: Commanded, name: str, args: str) -> CommandResult | None:
    """Run `/name args`; None when there is no such command. An error is a failed result."""
    command = COMMANDS.get(name)
    try:
        if command is None:
            return await _start_turn(session, name, args)
        if not command.must_be_alone(args):
            return await command.run(session, args)
        async with session.alone():
            return await command.run(session, args)
    except WrongUse as wrong:
        assert command is not None
        return reply(f"{wrong.why}\n{_usage(command)}", ok=False)
    except TreadleError as error:
        return reply(str(error), ok=False)


def _usage(command: SlashCommand[Commanded]) -> str:
    return "\n".join(f"{'usage:' if at == 0 else '      '} {form}" for at, form in enumerate(command.forms))


async def _start_turn(session: Commanded, name: str, args: str) -> CommandResult | None:
    """A command that the project or the person has written, or a skill: text for the model."""
    cwd, instructions = session.spec.cwd, session.spec.instructions
    found = project.commands(cwd, instructions).get(name)
    if found is not None:
        await session.expanding(name, args, "projectSettings")
        text = found.expand(args)
    else:
        skill = next((skill for skill in project.skills(cwd, instructions) if skill.name == name), None)
        if skill is None:
            return None
        await session.expanding(name, args, "skill")
        text = project.load_skill(skill) + (f"\n\n{args}" if args.strip() else "")
    return CommandResult(message="", turn=await session.prompt(Prompt(text=text)))


# What there is...


def every(cwd: str, instructions: Instructions) -> list[CommandInfo]:
    """Ours, then those of the project and the person, then the skills; of two with the same name, the first."""
    ours = [CommandInfo(name=c.name, description=c.help, arguments=" | ".join(c.usage)) for c in COMMANDS.values()]
    own = [CommandInfo(name=c.name, description=c.description) for c in project.commands(cwd, instructions).values()]
    skills = [
        CommandInfo(name=s.name, description=s.description, skill=True) for s in project.skills(cwd, instructions)
    ]
    found: dict[str, CommandInfo] = {}
    for command in (*ours, *own, *skills):
        found.setdefault(command.name, command)
    return list(found.values())


async def _help(session: Commanded, args: str) -> CommandResult:
    name = args.strip().removeprefix("/")
    cwd, instructions = session.spec.cwd, session.spec.instructions
    own, skills = project.commands(cwd, instructions), project.skills(cwd, instructions)
    if name in COMMANDS:
        return reply(f"{COMMANDS[name].help}\n{_usage(COMMANDS[name])}")
    if name in own:
        return reply(f"{own[name].description}\nusage: /{name} [ARGUMENTS]\nfrom {own[name].path}")
    if name:
        return reply(f"there is no command /{name}; /help lists them", ok=False)
    parts = [columns([(f"/{name}", command.help) for name, command in COMMANDS.items()])]
    if own:
        rows = [(f"/{name}", command.description) for name, command in own.items()]
        parts.append("Commands of this project and your own:\n" + columns(rows))
    if skills:
        parts.append("Skills:\n" + columns([(f"/{skill.name}", skill.description) for skill in skills]))
    parts.append("/help NAME says more about one.")
    return reply("\n\n".join(parts))


COMMANDS: dict[str, SlashCommand[Commanded]] = {
    command.name: command
    for command in (
        SlashCommand(name="help", usage=("[NAME]",), help="List all commands, or say how one is used.", run=_help),
        *looking.COMMANDS,
        *control.COMMANDS,
        *history.COMMANDS,
        *agents.COMMANDS,
    )
}


_DURING_A_TURN = {"never": "yes", "with arguments": "without arguments", "always": "refused"}


def reference() -> str:
    """The table of docs/reference/slash-commands.md."""
    rows = ["| Command | What it does | During a turn |", "|---|---|---|"]
    for command in COMMANDS.values():
        forms = "<br>".join(f"`{form}`".replace("|", "\\|") for form in command.forms)
        rows.append(f"| {forms} | {command.help} | {_DURING_A_TURN[command.alone]} |")
    return "\n".join(rows) + "\n"
