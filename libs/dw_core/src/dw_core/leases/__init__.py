"""Leases: how long a worker owns a task and when that ends.

What comes in: lengths in seconds and times. What goes out: durations, expiry times and pauses, all plain values. Who
may still report on a task is decided beside the decisions that need it (``dw_core.engine.ownership`` and
``dw_core.engine.activities``), also as values.
"""
