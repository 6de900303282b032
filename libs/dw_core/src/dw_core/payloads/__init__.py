"""Payloads: the Avro Value codec, its frames, and the envelopes that carry them.

What comes in: JSON values, ``{codec, blob}`` envelopes and base64 blobs from clients and workers. What goes out: the
same blob, byte for byte, once its frame has been checked, or the blob of a value the server had to encode itself. It
never re-encodes a blob it was given, never converts types silently and never reads external storage.

A blob is base64 text; a frame is its bytes: two magic bytes, the schema fingerprint, one Avro datum.
"""
