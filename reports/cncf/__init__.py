"""The part of CNCF's AI conformance that a run can show: statuses, evidence and notes for a vendor's ``PRODUCT.yaml``."""
