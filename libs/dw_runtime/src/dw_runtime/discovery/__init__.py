"""What a process says about itself: liveness, health, readiness, cluster info.

What comes in: probes of the store and of Redis, the state of authentication, the topology summary. What goes out: the
handlers of the discovery routes, and the bootstrap gate that the shell asks on every gated request. Every probe is
bounded in time, evaluated once for all who wait, and cached; nothing here scans a table per request.
"""
