"""Completion for bash, zsh and fish: `scripts` writes what a shell reads, `lists` answers what it asks at run time."""
