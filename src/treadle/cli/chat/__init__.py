"""`treadle`: a conversation with an agent on a terminal.

`talk` holds the conversation, `screen` what a person sees and types, `page` turns events into text, `plain` is the
same conversation line by line, for terminals that cannot move the cursor and for screen readers.
"""
