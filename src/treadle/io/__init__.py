"""Everything that touches the machine: durable files, locks, process trees, streams, the sandbox. One way for each."""
