"""The worker plane: registration, polls, reports on leased tasks, and the recovery of lost leases.

Comes in: requests under ``/api/worker``. Goes out: inputs for the pump, and held polls that the broker answers. The
handlers translate; the two bridges are the same operations as a Python API; nothing here decides what a run does.
"""
