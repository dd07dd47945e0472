"""``toyspec sync``, ``push`` and ``pull``."""
