"""The HTTP interfaces of model services: Anthropic messages, OpenAI chat and responses, Gemini.

An agent or our own provider asks with one POST, the service answers with one JSON document or with server-sent events.
Each request stands alone, so there is no `Connection` here. The specifications are the vendors' own references.

    sse        server-sent events, from bytes
    families   which family a path belongs to, what a request asks for, what a reply used, a refusal in its form

Our own agent's requests and replies are in `agent/providers`; the gateway reads those of outside agents.
"""
