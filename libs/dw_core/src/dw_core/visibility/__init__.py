"""Which runs a listing shows: the query language and what a search attribute is found by.

A text becomes a list of alternatives, each a set of conditions that all hold (``query``, ``conditions``). The store
answers each alternative from one index in the order of the listing and merges them. Nothing here reads or writes.
"""
