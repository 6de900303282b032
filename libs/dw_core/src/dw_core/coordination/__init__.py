"""The health of coordination: what twelve named checks say about counters read from the store (topology §3.4).

What comes in: counters, as structs whose fields are exactly the ``data`` members of a check. What goes out: the
``coordination_health`` document, the subset that readiness may evaluate, and the ``task_repair`` document. This
package counts nothing itself and reads no clock; names and order of the checks are frozen by the protocol.
"""
