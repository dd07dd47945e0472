"""Keeps a place beyond the file system in step with a folder of runs, also while they are written.

What is in the place is always whole committed lines of a stream, and each version of an object begins with the bytes of
the one before. So nothing is kept on this side: whatever was interrupted is compared with the place and goes on there.
"""
