"""Services: the catalogue of operations, and calls of them (engine §1.14, §6.18; control-plane §17).

An operation says what a call of it comes to: a workflow run, a signal, or a request to an HTTP target. A call is
admitted once per idempotency key, worked off by a dispatcher under a lease, and settled once; whoever waits for it is
told through the mail of its run. Everything here is pure: rows in, rows out.
"""
