"""The undo ledger: what was changed and how to change it back, written before anything is changed."""
