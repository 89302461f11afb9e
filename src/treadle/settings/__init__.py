"""What the user configured, and which projects the user trusts.

What a setting does is where it is used; keys of providers are read here and kept nowhere.
"""
