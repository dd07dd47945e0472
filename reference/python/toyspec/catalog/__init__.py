"""One table of all runs below some roots, kept in Parquet files: built once, updated by what has changed."""
