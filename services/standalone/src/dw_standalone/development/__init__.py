"""``dw-server dev``: everything on one machine, started together and ended together.

Options come in; running role processes on 127.0.0.1 with their own Postgres and Valkey go out, and one short block of
text that says how to use them. It holds no rule of any role: the roles run as the same commands that production runs.
"""

from dw_standalone.development.run import run

__all__ = ["run"]
