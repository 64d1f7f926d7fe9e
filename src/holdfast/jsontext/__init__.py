"""JSON texts: read, checked, taken apart and written without a digit being changed."""
