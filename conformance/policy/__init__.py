"""What the owner of a cluster expects of it, and which clusters may be changed."""
