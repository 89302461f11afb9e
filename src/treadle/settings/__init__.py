"""What the user configured, and which projects the user trusts.

Words:
    settings   one value per key, merged from defaults, the user's `config.toml`, the project's file, environment, flags
    source     one of these; a later one wins
    trust      a person's consent to a project directory: its path, and a hash of the files that matter
    ignored    what an untrusted project's file asked for and did not get, listed with its reason

Flow: `config` reads the sources in order and merges them into one `Settings`; `claude` turns the settings files of
Claude Code into tables of the same shape, so that they are merged by the same rules, and says of every name in them,
in front matter, plugins and the environment whether it is used; `project` reads the texts (memory, skills, commands);
`trust` says whether the project's files count in full. Rooms above read the result. `edit` is the only writer of the
person's own file. `extensions` finds agents, doors and forges that other distributions add.

Promises, and who keeps each:
    An untrusted project can only narrow: forbid more, ask more, lower limits.                  config
    A key never comes from a project's file, trusted or not.                                    config
    Code of another distribution is loaded in the version that the person's settings name.      extensions
    Trust ends when one of the files that it covers changes.                                    trust
    A setting that is not used is named, never skipped in silence.                              config, claude
    A person's file keeps its comments, order and everything that we did not change.            edit

`sandboxed`, `agent`, `drivers` and the rooms above import it; it imports `io`, `policy` and what is below. What a
setting does is decided where it is used. Keys of providers are read here and stored nowhere.
"""
