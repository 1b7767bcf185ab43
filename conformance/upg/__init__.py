"""UPG: before and after an upgrade."""
