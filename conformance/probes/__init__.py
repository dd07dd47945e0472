"""The questions about a case in each role, and the expected answers."""
