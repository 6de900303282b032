"""The control plane: what operators and applications call under ``/api``.

Calls that have passed the gates come in; engine inputs go to the pump, and documents built from reads go out. Handlers
translate: they decide nothing about a workflow, and this role never imports another.
"""
