"""Makes code, tables and pages from ``schemas/``: the facts are written once, there."""
