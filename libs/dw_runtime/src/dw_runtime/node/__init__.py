"""What every role process is made of: database, pump, wake bus, gates, shell, loops.

Comes in: settings and the name of the entry point. Goes out: a :class:`Node` that a role fills with its handlers and
loops and then runs as a ``dw_runtime.process.Role``. Composition only: nothing here serves a request or decides.
"""
