"""What the tests need from outside: stores for the whole run, databases, namespaces, and waiting for facts.

Fixtures come out; nothing here asserts anything about the server.
"""
