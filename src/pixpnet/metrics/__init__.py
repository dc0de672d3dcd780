"""Measurements that can fail: what explanations are worth, with intervals."""
