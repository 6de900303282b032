"""Postgres: named SQL, snapshots in, transitions out.

Comes in: inputs to load rows for and transitions to write. Goes out: snapshots, pages and listings. Rows travel as one
JSON array per table in both directions, so that a batch of any size is one statement and its types are the structs of
``dw_core.engine.rows``. Nothing here decides anything, and no SQL stands in Python.
"""
