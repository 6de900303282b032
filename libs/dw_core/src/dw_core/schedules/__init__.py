"""Schedules: when something is due, and what a due moment comes to.

A specification and a moment go in, the next occurrence comes out; a locked schedule and something that happens to it go
in, its after image, the rows of its history and the fires to carry out come out. A fire is the durable order to start
one run; carrying it out is an ordinary start. Nothing here reads a clock or starts anything.
"""
