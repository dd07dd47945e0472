"""From bytes to records: readers, the follower, and views of one run. Nothing here writes."""
