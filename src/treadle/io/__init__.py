"""What touches the machine, each in one way: files that survive, locks, process trees, streams, the sandbox."""
