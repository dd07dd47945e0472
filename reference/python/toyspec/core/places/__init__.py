"""Where runs are beyond the file system: object stores, web servers and what fsspec reaches."""
