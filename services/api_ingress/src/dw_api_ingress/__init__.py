"""The control plane: what operators and applications call under ``/api``.

Requests come in through the shared HTTP shell; inputs for the engine and reads of the store go out. It never serves
the worker plane and never imports another role.
"""
