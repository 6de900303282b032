"""Topology: which roles a process hosts, and the manifest that says so.

What comes in: the shape and process class from the settings and the entry point that was started. What goes out: a
placement, or a refusal to boot; the version 4 manifest of this node, and its summary. It describes the node that
answers, never the fleet, and repairs no bad configuration silently.
"""
