"""Makes the parts of the site that are not committed: a page for each statement, the downloads, llms.txt."""
