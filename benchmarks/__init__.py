"""One file per claim; each prints a ratio to a named peer or limit that was measured in the same run."""
