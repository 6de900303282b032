"""Asking workers and waiting for what they say: an admitted query comes in, its answer comes out.

A question is a row that a worker leases, wherever the worker polls; the process that asked is woken when the answer has
been written, and looks for it once per second when the wake signal was lost. Nothing here decides whether a run may be
asked: that is ``dw_core.queries``.
"""
