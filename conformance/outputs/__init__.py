"""Pure parsers and verdict functions over captured text: logs, tables, metrics, events, labels, slices.

One module per noun. Nothing here talks to a cluster or reads a file, and text that is not what its reader reads
raises :class:`~conformance.outputs.captured_text.Unreadable`, nothing else.
"""
