"""One destination for each tool that runs are exported or mirrored to.

An export opens a run, puts all of its rows, and closes it; a mirror does the same as the rows come. Retries, spool and
state belong to the mirror: a destination knows its tool alone.
"""
