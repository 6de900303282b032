"""The HTTP shell: one plain ASGI application that every process serves.

What comes in: an ASGI request and the handlers, placement, authenticator and readiness of this process. What goes
out: one JSON response with the version header and the envelope of its plane, whatever happened. The gates run in
the one order of the contract (control-plane §3, worker-plane §1.3) before any handler does.

It never decides anything about a workflow, never opens a database connection and never answers without an envelope.
"""
