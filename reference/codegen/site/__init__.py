"""Makes what the site shows and the tree does not keep: a page for each statement, the downloads, llms.txt."""
