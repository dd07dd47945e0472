"""From events to bytes on disk: locked append files, run writers, fragments moved to side files, repair."""
