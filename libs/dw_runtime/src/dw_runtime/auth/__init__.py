"""Who is calling: one authenticator per process, built once from the configured secrets.

What comes in: the request headers and the raw body. What goes out: a :class:`Grant` that names the principal and the
roles it passes for, or a refusal. Comparison looks at every configured secret and takes the same time whichever
matches. This package never asks the database, never logs a credential and never shows one in a ``repr``.
"""
