"""The model wire of an outside agent: what goes between the agent and its model service passes through us.

An agent that reaches its model by itself needs the key in its sandbox, and only its own word says what it used. Here
the run's own process stands between: inside, the agent sees a loopback address and a placeholder that is worth nothing
elsewhere; outside, the real key is put in its place.

Words:
    gateway       an HTTP/1.1 server for one run, on a Unix socket that the sandbox shows as a local port, or on a
                  loopback port where the agent shares our network
    upstream      the service behind it: the vendor's, or whatever base URL a person has set for the agent
    placeholder   what the agent has in place of a key; it is also the run's token: without one nothing is answered
    family        a kind of interface that we can read: Anthropic messages, OpenAI chat and responses, Gemini
    observed      counted by us from the replies that passed; what the agent says of itself is `claimed`
    record        the calls of a run, stored; a replay answers another run from it
    account       a service and a key: its limits are shared by all runs of this machine that use it

Flow: a request is checked for the placeholder, read whole (its size is limited), and measured against the budget. It
goes upstream with the real key when the account is free; the reply goes back piece by piece, as it comes. The meter
reads along, and has counted a call before the agent sees its end.

Promises, and who keeps each:
    No reply is held back, reordered or changed, but an error or a header that repeats the key. server
    A key is in no log, no error and no header of a reply; it is sent only in the headers and   server
    the field of the query in which services take one. The body of a good reply is not searched.
    A call of a known family that does not fit into the budget, as far as it can be estimated,  spending
    is refused in the family's form, and not made.
    What is left limits the length of a reply; that is stated.                                  spending
    A record holds none of the run's keys, and has a size limit.                                recording
    After a 429 or 529 runs of the account wait, if that is for no more than four minutes.      governor
    A reply without counts, or in a form that we cannot read, is reported as unmetered.         server

`drivers` imports it and knows which variables and options lead each agent here; it imports `sessions`, `io`, `wire` and
what is below, and neither drivers nor fleet.
"""
