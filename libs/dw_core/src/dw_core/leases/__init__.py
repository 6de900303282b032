"""Leases: how long a worker owns a task, when that ends, and whether a caller still owns it.

What comes in: the stored facts of a task and its run, who calls, and the time. What goes out: durations, expiry times
and guard outcomes, all plain values. It never grants, renews or takes back a lease itself.
"""
