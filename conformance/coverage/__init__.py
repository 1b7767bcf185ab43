"""What a run had to judge and did not: kinds that a snapshot lacks, devices and policy patterns that no requirement reached."""
