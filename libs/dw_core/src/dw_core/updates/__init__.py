"""Updates outside the engine: asking a worker's validator before an update is accepted (control-plane §13.4).

A validation is a question to a live worker, like a query: it has no history and no durable row, and its caller waits
for the verdict. Accepting the update on an approval is the engine's part.
"""
