"""Worker sessions: activities that carry one session id run on one worker (worker-plane §15).

Comes in: the options of a session, the session as it is stored, and the worker that wants to hold it. Goes out: the
session as it stands then, or why the worker is not admitted. Losing a session never ends an attempt: their leases stay
their own.
"""
