"""The Agent Client Protocol, version 1: editors on one side, coding agents on the other.

JSON-RPC 2.0, one message a line, over the agent's stdin and stdout; both ends call. After `initialize` the client opens
sessions and sends prompts; the agent answers a prompt when the turn is over and tells meanwhile, in `session/update`
notifications, what it says and does. It calls back for permissions, files, terminals and questions.

    connection  who may say what, and when; content blocks as text; MCP servers in this protocol's form
    tools       one tool call, put together from the updates about it; tokens and money, which each agent counts
                over another span
    incoming    an agent's updates as our events, for the driver
    outgoing    our events as updates, for the door

The specification is at https://agentclientprotocol.com; how seven agents really speak it was recorded, and where they
differ from it or from each other, the comments say so. The reference is docs/reference/acp.md.
"""
