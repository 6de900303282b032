"""Running a role: one port, one or several worker processes, and a polite end.

A function that builds a :class:`Role` from the settings comes in; an exit code goes out. SIGTERM or SIGINT drains the
role (readiness answers 503, held polls end empty, begun requests finish), then the process ends with 0. This package
knows nothing of workflows, and it never prints a traceback for something an operator can put right.
"""

from dw_runtime.process.codes import EXIT_CONFIG, EXIT_FAILURE, StartupError
from dw_runtime.process.role import Role
from dw_runtime.process.run import run

__all__ = ["EXIT_CONFIG", "EXIT_FAILURE", "Role", "StartupError", "run"]
