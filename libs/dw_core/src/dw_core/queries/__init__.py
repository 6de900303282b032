"""Queries: questions to a worker about a run, outside its history.

Comes in: what the store knows of a run and of the live workers of its queue, a worker's report, an answer. Goes out:
the query task to admit, or the refusal its caller or its worker is given. A query is never an input of a run: nothing
here locks, changes or waits for one.
"""
