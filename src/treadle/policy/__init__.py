"""What is allowed, as pure functions: patterns, rules, modes, and what the text of a command would do.

A tool call is described by what it touches (`session.Access`: command, paths, host). This room turns an Access into a
`session.Decision`: allow, ask or deny, with the reason. It opens nothing and asks no one; a caller passes in what must
be known about the disk (`rules.Disk`), and `io/sandbox` enforces what only the kernel can enforce.

Words:
    pattern    a glob in the one dialect of this product (`patterns`)
    rule       a tool and a pattern, such as `Bash(git status*)`; it allows, asks or denies (`rules`)
    mode       what holds where no rule matches: it names for each kind of tool whether to ask (`rules`)
    profile    the guard of one session: rules, mode, directories and later permissions together (`rules.Profile`)
    lists      the seven lists of a work order's policy, as one guard (`lists`)

Flow: a shell command is parsed (`shell`), its programs and their options are looked up (`programs`), and what it would
write is derived (`writes`). Rules and mode are then applied to the parts, and the strictest decision counts.

Promises, and who keeps each:
    Deny beats ask beats allow.                                                                 rules
    What forbids is read broadly, what allows narrowly: allow must match every part.            rules
    A command that cannot be followed is allowed only by a rule that is exactly that command.   shell, rules
    Whether two patterns overlap is decided exactly.                                            patterns
    No line of a `.gitignore`, however hostile, backtracks more than once over a name.          patterns
    A child sees an allow-list of the environment, never a secret that it was not given.        environment

Any room from `io` up may import it. It imports `session` and what is below; not `os`, `asyncio` or any other module
that looks around by itself. What a person configured is read in `settings`; `agent` and `drivers` ask the person.
"""
