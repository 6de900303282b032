"""History events as they are stored and served: their JSON form, page tokens, and the compressed form of a page.

An event is encoded once, when it is appended; every page, poll and export splices those bytes. Nothing here decodes a
stored event or changes one.
"""
