"""A one-line summary of each command: `treadle --help` shows it without importing the commands.

Each is the first line of the command's docstring; a test checks that they agree.
"""

SUMMARIES = {
    "chat": "Talk with an agent in this directory.",
    "demo": "Watch a fleet of agents mend a shop in a temporary repository.",
    "sessions": "Kept sessions: list them (the latest first), show, search, export, remove.",
    "trust": "Trust the project in DIR (default: here) as its files are now.",
    "acp": "Serve an agent on stdin and stdout to an editor that speaks the Agent Client Protocol.",
    "mcp": "Serve agents on stdin and stdout as tools of an MCP server.",
    "worker": "Serve an agent on stdin and stdout, one JSON object per line.",
    "sidecar": "Serve an agent on stdin and stdout to a control plane that speaks abp/v0.1, one JSON object per line.",
    "host": "Be a control plane: run any sidecar that speaks abp/v0.1, and get a receipt one can trust.",
    "receipt": "Receipts of runs: list, show, compare, verify.",
    "run": "Run a program in a terminal that outlives this one.",
    "attach": "Join a terminal: see what its program shows and type into it.",
    "ls": "List terminals.",
    "status": "How a terminal is doing.",
    "send": "Type into a terminal.",
    "tail": "Show the end of a terminal's output, also after it has ended.",
    "peek": "Look at a terminal's screen without attaching, also after it has ended.",
    "wait": "Wait until a terminal is in a state, or has ended.",
    "resize": "Change a terminal's size, whatever its policy is.",
    "rename": "Give a terminal another id.",
    "kill": "End a terminal's program and all that belongs to it, and say what died.",
    "clean": "Remove what terminals that have ended left: logs, output and exit records.",
    "replay": "Play a recording (asciicast 2 or 3) in this terminal.",
    "explain": "Say why a terminal is taken to be in its state.",
    "fleet": "Run many agents, on one machine or many: orders go in, nothing is lost, nothing collides.",
    "serve": "Serve the page and the HTTP interface: watch and steer the fleet and the terminals from a browser.",
    "top": "Watch the fleet: who needs you, what works, waits, is done; answer, say something, cancel.",
    "coord": "Coordinate agents that share a repository: claims, identities, messages, capsules, the token ledger.",
    "agents": "List the agents that can be put to work here: version, path, how each is driven, what it can do.",
    "completion": (
        "Print a completion script for your shell: commands, options, terminals, sessions, agents, orders of a fleet."
    ),
    "docs": "List the pages of the documentation, or show one.",
    "doctor": "Say what works on this machine: state, settings, models, agents, optional parts, sandbox, fleet.",
    "man": "Print the manual page of a command, or write all of them.",
    "models": "List the models of every service that is set up, or fetch one that runs on this machine.",
    "ps": "List the process trees that treadle keeps: agents, their tools, terminals, background tasks.",
    "warm": "Have `treadle -p` and `treadle-worker` start at once.",
}
