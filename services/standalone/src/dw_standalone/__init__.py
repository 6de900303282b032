"""The ``dw-server`` command, the process that hosts both planes, and the embedded stores of a developer's machine.

Command-line arguments and environment variables come in; running role processes go out. It composes the roles and
never holds a rule of theirs.
"""
