"""The screen of ``toyspec watch``: imported by that command alone, since it needs Textual."""
