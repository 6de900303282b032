"""Wake signals: hints that a queue may have something to claim.

Comes in: keys whose tasks have just been committed. Goes out: the same keys, in other processes that hold polls on
them. Losing any number of signals costs latency and nothing else, so nothing here waits for Redis, retries for ever
or raises to a caller; every holder of polls also probes the database once a second.
"""
