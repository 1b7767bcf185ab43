"""The data model of chaos: experiments, plans, conditions, ledger lines. Nothing here asks a cluster."""
