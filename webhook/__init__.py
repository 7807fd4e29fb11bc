"""Samestep: keeps every GPU training job on one GPU model."""
