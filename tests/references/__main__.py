"""Writes every page."""

from tests.references import PAGES, page

for name, render in PAGES.items():
    page(name).write_text(render(), encoding="utf-8")
