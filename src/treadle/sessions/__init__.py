"""What every session has in common, native or driven: event log, turn queue, questions, totals.

`treadle.session` declares what a Session promises. `BaseSession` here implements the part that does not depend on the
agent; `agent.session` and `drivers.session` derive from it and define only what a turn does and how it is closed.

Words:
    event log   the session's events, numbered from 1; readers start at any number
    reader      lossless (the session waits for it when it is a window behind) or observer (it is told what it missed)
    turn        one prompt and all that follows; turns of a session run one after the other
    served turn a turn that someone follows: the client of a door, a program, a person in the chat
    question    an `Asked` event that waits for `answer`, with a deadline
    ability     something an agent can be asked for; its card gives a level for each

Flow: prompts come in and queue; the turn emits events into the log; readers (doors, the command line, the fleet) take
them out. Answers, steering and interrupts enter beside the queue and reach the running turn. `totals` folds the events
of a turn into its result, so every door reports the same text, usage and latencies.

Promises, and who keeps each:
    Every turn ends with exactly one TurnEnded, also when it fails or is cancelled.             session
    Events are numbered without gaps; memory is bounded.                                        session.EventLog
    A question is answered once, or runs into its deadline.                                     session
    Who follows a turn misses nothing of it, and has interrupted it by leaving.                 totals
    What an agent cannot do is refused before anything is said to it.                           abilities
    Token estimates come from one rule and are marked as estimates.                             tokens
    What is sent to a collector says nothing that was said, unless that is asked for.           telemetry

`agent`, `drivers`, `doors`, `coordination` and the rooms above import it; it imports `io`, `wire` and what is below.
What an agent says, and in which words, belongs to `agent` and `drivers`. Where history is stored is in `agent`.
"""
