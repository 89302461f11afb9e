"""The sandbox of one session: what its programs may touch, and how their commits leave it.

`io/sandbox` starts a program as a `Confinement` says, and `workspace` knows private repositories; neither knows of
sessions. This room combines them for one session: it derives the Confinement from workspace, rules and settings, keeps
it up to date between two programs, and moves results across the boundary.

Words:
    confining   the state behind a session's Confinement: `Confining.now()` gives that of a program started now
    sealing     keeping the repositories of the workspaces out of reach: each gets a private one (`confining.Sealing`)
    inside      in the sandbox: a git that reads an agent's repository may run the agent's programs, so it runs there
    gate        what decides which files and commits leave (`workspace/gate.py`); `files` asks it about files in place
    leftover    a private repository whose session was killed before its commits were taken over
    held path   a path under another identity's claim: read-only inside while the claim lasts

Flow: spec and settings go in (`settled`), a Confinement comes out for each program; after a program or turn, however it
ended, what it left in files passes the gate, then commits come out of the private repository and move the user's refs.
`IsolatedPlace` is the same for a task in a directory of its own. `checks` runs a person's check, confined, and `turns`
that of the project on what a turn changed. `claims` watches claims while a driven agent runs and changes its mounts.

Promises, and who keeps each:
    Under bubblewrap, nothing inside can write the user's git directory.                        confining
    Commits come out as a bundle made inside; every object is checked on the way in.            repositories
    What other programs obey is as the person has it, or had it, when a command has ended.      files
    Work of a killed session is found again and becomes a branch, or is shown to a person.      repositories
    A path that another claims while a driven agent runs becomes read-only for it.              claims

`agent`, `drivers`, `host`, `fleet`, `library` and `cli` import it; it imports `verification`, `workspace`, `settings`,
`io`, `policy` and what is below. How the kernel enforces a Confinement is in `io/sandbox`; whether a call is asked
about is in `policy`.
"""
