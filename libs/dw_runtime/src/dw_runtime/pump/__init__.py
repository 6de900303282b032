"""The pump: the one road by which a run changes.

Comes in: inputs, and probes of queues that may have something to claim. Goes out: replies, tasks claimed for held
polls, and wakes for the queues that still have ready tasks. What waits in this process is run as one transaction: one
locked read, one decision per input, one set-based write, one commit. While a commit is in flight the next batch fills.
It decides nothing itself and knows no HTTP.
"""
