"""The way from a study file to a decision."""
