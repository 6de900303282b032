"""Memo and search attributes of a run: which values they take, and what an update makes of them (engine §6.5).

Rules only: in come the entries of a start or of a command and what the run has already, out come merged values or a
complaint. Nothing here knows of events, rows or the database.
"""
