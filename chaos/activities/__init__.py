"""What experiments do: provider functions that act on the frozen plan only, each through the undo ledger.

Every function returns the targets as it found them: chaostoolkit's journal keeps the arguments
unresolved (docs/facts/chaostoolkit.md#status-of-a-run).
"""
