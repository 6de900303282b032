"""Payloads that are kept outside the database.

What comes in: bytes that clients upload, references that requests name, references that describe and export resolve.
What goes out: the same bytes, once size and SHA-256 have been verified, or a typed error; never something in place of
bytes that are missing or altered. Rows say which payloads a namespace keeps and which runs use them; objects lie under
an address made from their content, in a folder or in a bucket that a *disk* gives access to.
"""
