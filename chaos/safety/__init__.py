"""What keeps a cluster safe: gates, the policy's settings, the Lease, the abort flag."""
