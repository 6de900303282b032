"""Reads of the store that change nothing: runs, listings, histories, namespaces, and the state of the database.

Comes in: names, filters and page positions. Goes out: structs whose documents the planes build, and encoded JSON where
the stored bytes are served as they are. Each read is one statement on one connection, and none of them decides
anything.
"""
