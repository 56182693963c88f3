"""Private training and private models."""
