"""Write the settings reference: ``python -m dw_runtime.settings.reference docs/reference/settings.md``."""

from __future__ import annotations

import sys
from pathlib import Path

from dw_runtime.settings.report import reference

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference())
