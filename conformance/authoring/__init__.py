"""Programs for maintainers of the corpus; no runner needs them."""
