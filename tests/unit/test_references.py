"""The generated pages of the documentation say what the code says."""

from __future__ import annotations

import pytest

from tests.references import PAGES, page


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert page(name).read_text(encoding="utf-8") == PAGES[name](), "run make references"
