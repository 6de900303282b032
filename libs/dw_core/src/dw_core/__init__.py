"""The rules of the Durable Workflow server, with no I/O.

What comes in: plain values (a snapshot of a run, an input naming it, the time). What goes out: plain values
(a transition to write, a refusal with its reason, a manifest). This package never opens a socket, never reads a
clock and never draws a random number; every caller passes those in.
"""
