"""What is asserted: one folder per area of the catalogue, one test per requirement."""
