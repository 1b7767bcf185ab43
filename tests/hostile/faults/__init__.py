"""A proxy between the suite and an API server whose answers are late, cut, refused, or lies, and seeded runs through it."""
