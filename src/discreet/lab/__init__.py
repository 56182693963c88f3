"""The textbook live: figures, exercises and attacks that run on discreet's own functions."""
