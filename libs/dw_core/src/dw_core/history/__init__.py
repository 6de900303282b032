"""History events as they are stored and served: their JSON form, paging tokens and page compression.

An event is encoded once, when it is appended; every page, poll and export splices those bytes.
"""
