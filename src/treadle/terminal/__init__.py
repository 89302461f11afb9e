"""Programs kept running in a pty: any number of clients watch them, type into them, query and end them.

Words:
    supervisor  one process for one program: it holds the pty, serves clients on a Unix socket, and records the end
    client      a program that connects: `attach`, `send`, `status`, the page; one of them leads and decides the size
    state       what the program is doing, judged from outside: starting, idle, thinking, permission, unknown, dead...
    detector    a table that says how one agent program shows its states on the screen (`detectors`)
    report      what a program says about itself: OSC 7501, or its hooks through the state file
    prompt      a text to submit: typed, seen in the input box, then Enter, then followed to the end of its turn

Flow: `launch` starts a supervisor (forked, to share memory with hundreds of others). Output goes from the pty to the
scrollback, to a file and to each client at that client's speed. `grid` keeps the characters on the screen, `judge`
reads them by the agent's detector, `state` weighs all evidence. Keys go the other way: `keyboard`, `prompts`, pty.

Promises, and who keeps each:
    No client delays another; one that is attached and reads nothing delays the program by
    seconds at most.                                                                            supervisor, output
    All output comes first, then the exit record, then EXIT.                                    supervisor
    An id is free exactly when nothing of its terminal is left.                                 lock
    A killed supervisor's processes are ended and its end is recorded.                          aftermath
    A text meant as a prompt is not typed into a dialog that is on the screen.                  keyboard, prompts
    Without evidence the state is unknown; never a guess that reads as fact.                    judge, state, states
    A full disk does not disturb the program.                                                   history

`fleet`, `serve` and `cli` import it; it imports `workspace`, `io`, `wire` and what is below. Modules that a supervisor
loads are light, because each costs memory in every terminal; `viewers` has what people see and is loaded by clients
only. How an agent's own protocol becomes a session is in `drivers`; the bytes are in `wire/terminal`.
"""
