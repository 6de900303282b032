"""Workers: what a registration says, when it is refused, and which polls it allows.

Comes in: a registration request, the registration stored before, a poll. Goes out: the registration to store, or a
rejection. Staleness only means that a worker is not counted on; any contact revives it.
"""
