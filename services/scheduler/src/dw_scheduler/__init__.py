"""The clock: passes over schedules, timers, timeouts and retention.

Time comes in; inputs for the engine go out. It hosts no public routes beyond discovery, never writes a run by its
own road, and never imports another role.
"""
