"""The engine: every rule about how a run changes.

An *input* names a run and says what happened. ``decide(snapshot, input, now)`` reads the locked rows of that run and
answers with a *transition* (events to append, rows to open, change and close, queues to wake, a reply) or with a
*rejection*. It performs no I/O, reads no clock and changes none of its arguments; the store loads snapshots and writes
transitions. History sequence (H) is an event's position in the run; workflow sequence (W) is the ordinal of a durable
call in the authored code. They are different counters.
"""
