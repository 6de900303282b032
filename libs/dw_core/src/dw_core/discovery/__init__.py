"""Discovery: the document of ``GET /api/cluster/info``, from which clients learn what this server speaks.

What comes in: the identity of the node, its topology manifest, its capabilities and limits, and the dynamic parts a
process has measured. What goes out: one JSON document with every published key. Unimplemented features are false, not
absent, and nothing here is measured, cached or read from a store.
"""
