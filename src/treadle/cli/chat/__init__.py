"""`treadle`: a conversation with an agent on a terminal.

`command` opens the session, `talk` holds the conversation, `screen` has what a person sees and types, `page` turns
events into text. `command` also has the same conversation line by line, for terminals that cannot move the cursor and
for screen readers.
"""
