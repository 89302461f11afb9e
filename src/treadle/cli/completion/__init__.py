"""Completion for bash, zsh and fish: `scripts` writes what a shell reads, `lists` what it asks at run time."""
