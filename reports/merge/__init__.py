"""One report of many clusters, from the records of their runs."""
