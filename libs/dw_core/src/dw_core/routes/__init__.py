"""The catalogue of routes: every public route of both planes, declared once.

The catalogue drives the order of checks, what each role process hosts, the OpenAPI document and the test matrix
*every route x every process class*. It holds no handlers.
"""
