"""Notices about orders that need a person, sent to browsers, phones and other programs."""
