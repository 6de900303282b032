"""The I/O that the role processes share: store, pump, wake bus, HTTP shell, auth, telemetry.

Rules live in ``dw_core``; this package carries values between them and Postgres, Redis and HTTP.
"""
