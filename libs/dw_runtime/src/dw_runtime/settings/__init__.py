"""Configuration from environment variables, declared once.

A mapping of environment variables comes in; one frozen :class:`Settings` value with typed fields goes out, together
with the findings of the audit (unknown names, legacy names, names without meaning here). Names, types, defaults,
units and texts are declared on the fields themselves, and the reference page, ``dw-server check-config`` and the
audit are generated from those declarations. This package never reads ``os.environ`` by itself and never prints.
"""

from dw_runtime.settings.audit import Finding
from dw_runtime.settings.load import Loaded, load, load_audited
from dw_runtime.settings.model import Settings
from dw_runtime.settings.variable import SettingsError

__all__ = ["Finding", "Loaded", "Settings", "SettingsError", "load", "load_audited"]
