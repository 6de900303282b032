"""What the twelve named checks of coordination health say about counters read from the store (topology §3.4).

What comes in: counters, as structs whose fields are exactly the ``data`` members of a check. What goes out: one verdict
per check, for the document that ``dw_core.discovery`` publishes, and the subset that readiness may evaluate. This
package counts nothing itself and reads no clock.
"""
