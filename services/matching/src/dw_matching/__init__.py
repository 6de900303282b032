"""The worker plane: what workers call under ``/api/worker``, and the sweeps that recover leases.

Polls and outcomes come in; claimed tasks and inputs for the engine go out. It never decides what becomes of a
workflow, and never imports another role.
"""
