"""What workers declare of their signals, queries and updates, and whether a request's arguments fit it.

Comes in: the ``input`` of a request in any accepted form, and the declared parameters when they are known. Goes out:
the argument list as a payload, or what is wrong with each argument. Types are a matter of the worker's language and are
not compared.
"""
