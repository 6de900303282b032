"""Workflow-task commands: from the JSON a worker sends to validated values, and from those to events and rows.

``parse`` needs no run and is done before the run is locked; ``apply`` happens inside the decision. One invalid command
refuses the whole batch and nothing is recorded (worker-plane §8.8).
"""
