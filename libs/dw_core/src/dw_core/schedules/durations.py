"""ISO 8601 durations of a fixed length."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from dw_core.limits import SECONDS_MAX

_FORM: Final = re.compile(
    r"P(?:(?P<weeks>\d{1,9})W|(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,10}(?:[.,]\d{1,6})?)S)?)?)"
)


def parse_duration(text: str) -> timedelta | None:
    """The length of an ISO 8601 duration of weeks, days, hours, minutes and seconds.

    None for anything else: no duration, one without an element, one of years or months (which have no fixed length),
    one that is longer than ``SECONDS_MAX``.
    """
    match = _FORM.fullmatch(text.strip().upper())
    parts = {} if match is None else {unit: value for unit, value in match.groupdict().items() if value is not None}
    if not parts:
        return None
    length = timedelta(**{unit: float(value.replace(",", ".")) for unit, value in parts.items() if unit == "seconds"})
    try:
        length += timedelta(**{unit: int(value) for unit, value in parts.items() if unit != "seconds"})
    except OverflowError:
        return None
    return length if length <= timedelta(seconds=SECONDS_MAX) else None
