"""The profile kaun/v1: its run directory, its writer, its scalar store."""
