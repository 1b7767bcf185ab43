"""Making a fault, and the pods that an experiment starts for itself."""
