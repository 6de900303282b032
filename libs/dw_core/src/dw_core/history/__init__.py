"""History on its way out: pages, their tokens, and the compressed form of a page.

What comes in: events as the exact JSON bytes that are stored, and what a worker asked for. What goes out: a page, or
a page token. It never decodes an event and never changes one.
"""
