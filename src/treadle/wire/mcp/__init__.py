"""The Model Context Protocol, between a client and a server of tools.

JSON-RPC 2.0, one message a line on stdin and stdout, or one per HTTP request. The client calls `initialize`, lists
the tools and calls them; the server answers with content, tells progress while a call runs, and may ask the person at
the client something (`elicitation/create`). The newest revision has no handshake: each request names its sender.

    revisions   which revisions are spoken, how one is agreed on, and what results look like
    connection  who may say what, and when, in a conversation in which both ends call; and what a server of tools
                answers, as its client reads it

Light commands answer with `wire/common/jsonrpc`; servers whose tools take time use the connection. The specification is
at https://modelcontextprotocol.io.
"""
