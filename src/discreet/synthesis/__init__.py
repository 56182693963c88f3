"""Synthetic rows from paid measurements: a tree model, and an adaptive one."""
