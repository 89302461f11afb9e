"""The profile for small models: what the native agent does differently with a model of a few billion parameters.

Such a model writes the wrong call, repeats itself, edits files that it has not read and never stops. So it gets four
tools and a short prompt, may only write what a schema allows, makes one step at a time, is shown the files that it
needs, and is told the correct call after a wrong one. Each of these is a part of `profile.SmallProfile` that can be
switched off, so that its benefit can be measured. `provider.SmallModel` wraps any provider; the loop does not know
about it.
"""
