"""Parts of the HTML page, computed from a record: rows, causes, the matrix of nodes."""
