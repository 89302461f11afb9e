"""The native agent's tools, one file each."""
