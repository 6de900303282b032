"""Bridge adapters: an event that somebody else has sent becomes one command of the control plane.

An event goes in, the command it stands for and the outcome its sender is told come out. Nothing here carries a command
out: that is what the control plane's own handlers do.
"""
