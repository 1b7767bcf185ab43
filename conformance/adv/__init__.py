"""Advertisement: what nodes offer is what is in them."""
