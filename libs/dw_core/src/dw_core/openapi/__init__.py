"""The OpenAPI document of both planes, and the page that shows it to people.

What comes in: the catalogue of routes, the structs of their bodies, and the table of what each route may answer. What
goes out: an OpenAPI 3.1 document and an HTML page that needs nothing from elsewhere.
"""
