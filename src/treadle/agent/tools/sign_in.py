"""What to allow when git, or another program, cannot reach another machine from inside a sandbox, or sign in there."""

_SSH = ("Permission denied (publickey", "Host key verification failed", "Could not open a connection to your authen")
_HTTPS = ("could not read Username for", "could not read Password for", "Authentication failed for", "gh auth login")

_NOT_REACHED = ("ssh: connect to host", "ssh: Could not resolve hostname")


def unreachable_by_ssh(output: str) -> str:
    """Why ssh reached nothing where commands have no network, or that of some hosts; empty when it is not about ssh."""
    if not any(sign in output for sign in _NOT_REACHED):
        return ""
    return (
        "ssh reaches no machine from here, also none of a list of hosts, because it does not use a proxy. A person can"
        " allow everything with --network on, or give git an https address, for which --network HOST is enough"
    )


def refused_sign_in(output: str) -> str:
    """What a person can allow, from what the command printed; empty when it was not about signing in."""
    if any(sign in output for sign in _SSH):
        missing, allow = "ssh keys and the ssh agent", 'sockets = ["$SSH_AUTH_SOCK"] and read = ["~/.ssh/known_hosts"]'
    elif any(sign in output for sign in _HTTPS):
        missing, allow = "saved passwords and tokens", 'read = ["~/.git-credentials"] or read = ["~/.config/gh"]'
    else:
        return ""
    return (
        f"it could not sign in: without the person's leave, their {missing} are not in the sandbox. They can allow it"
        f" under [sandbox] in the settings with {allow}, or run this command themselves"
    )
