"""The format itself: pure functions on bytes and values. Nothing here opens a file."""
