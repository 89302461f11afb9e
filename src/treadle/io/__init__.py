"""The only place that reads, writes, spawns, signals, renames or locks."""
