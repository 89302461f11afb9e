"""Everything that touches the machine: files, locks, processes, streams, sockets and the sandbox.

Every other room decides and asks; this room acts. There is one way to do each thing, so that its failure modes are
handled once: a crash at any instruction, a full disk, a path that is swapped for a link, a peer that is slow or gone.

Words:
    tree       a process with everything that ever descends from it
    reaper     the child-subreaper that starts one tree: what descends from it is the tree
    keeper     one small process per treadle process (its owner): it ends all trees when the owner ends, even by SIGKILL
    stream     bytes with the same few methods, whether of a child, of our own standard streams or of a socket
    link       the pump between a stream and a wire's `Connection`; a `Peer` is a child process behind a link
    confinement  what the kernel forbids a program, as data (`treadle.confinement`); `sandbox` enforces it

Flow: a caller hands in plain data (a path and bytes, a command, a Confinement, a wire) and gets back plain data, a
handle to a tree, or messages. Nothing calls up: this room knows no session, no event and no order.

Promises, and who keeps each:
    A file is replaced whole or not at all; a log gains whole lines, even with many writers.    files
    What a newer version stored is refused and left as it is; what is damaged is said.          records
    A path is opened as it was resolved: a link that was swapped in is an error.                descriptors
    No process outlives its owner, unless it was detached.                    process/keeper, process/reaper
    A signal never hits a process that has reused a pid.                                        process/table
    A confined program begins only after its namespaces were checked from outside.              sandbox/start
    A slow reader slows the writer; nothing is buffered without bound.                          streams, link
    Every OSError of a file becomes a StorageError that names the path.                         files
    A temporary directory without a living owner is removed by the next one who makes one.      scratch

Any room above may import it. It imports `policy`, `wire` and the plain data below them. Rules of the product do not
belong here: the caller says what is done. Modules marked "Light" avoid asyncio, msgspec and dataclasses, because
keepers, supervisors and small commands load them.
"""
