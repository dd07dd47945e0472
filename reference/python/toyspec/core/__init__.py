"""The core: the format, its reader, writer, checker and lists, and their commands. It imports no room."""
