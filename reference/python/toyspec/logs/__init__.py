"""Logs of other programs: recognized, read, proposed and checked as dialects. The core asks through its readers."""
