"""What to allow when git, or another program, cannot sign in to another machine from inside a sandbox."""

_SSH = ("Permission denied (publickey", "Host key verification failed", "Could not open a connection to your authen")
_HTTPS = ("could not read Username for", "could not read Password for", "Authentication failed for", "gh auth login")


def refused_sign_in(said: str) -> str:
    """What a person can allow, from what the command printed; empty when it was not about signing in."""
    if any(sign in said for sign in _SSH):
        missing, allow = "ssh keys and the ssh agent", 'sockets = ["$SSH_AUTH_SOCK"] and read = ["~/.ssh/known_hosts"]'
    elif any(sign in said for sign in _HTTPS):
        missing, allow = "saved passwords and tokens", 'read = ["~/.git-credentials"] or read = ["~/.config/gh"]'
    else:
        return ""
    return (
        f"it could not sign in: without the person's leave, their {missing} are not in the sandbox. They can allow it"
        f" under [sandbox] in the settings with {allow}, or run this command themselves"
    )
