"""PSA: Pod Security of device pods."""
