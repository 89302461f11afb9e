"""One file per claim; each prints a ratio against a named peer or limit measured in the same run."""
