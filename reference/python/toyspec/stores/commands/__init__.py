"""``toyspec sync`` and ``push``."""
