"""One prompt through a session, printed: text, json or stream-json (seed 002), and many prompts with stream-json input.

The run writes records: zero or more `stream_event`s, then one `result` ("Output Formats"; the session's background
tasks report as stream events too). A script that sends prompts on stdin gets one result for each, and may take part:
`control_request` and `control_response` go both ways. Field names follow Claude Code ("Claude Code Field Name
Compatibility"), and so does the input, which the specification leaves open; exit codes are up to the door.

    connection  what is written, made from events, and what may be said when

The reference is docs/reference/one-shot.md.
"""
