"""How Sphinx builds this site (`make docs`)."""

project = "Durable Workflow server"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = project
myst_heading_anchors = 3
myst_links_external_new_tab = False
exclude_patterns = ["conf.py"]
