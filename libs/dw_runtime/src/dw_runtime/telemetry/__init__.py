"""Logs and metrics: what an operator sees of this process.

What comes in: events named by the code that has something to say, and numbers observed on the way. What goes out: one
JSON line per event on standard error, and the Prometheus text of this process. There is no access log; only errors,
refusals of ours and slow requests are written. Label values are bounded: routes, kinds and status classes, never ids.
"""
