"""Proof of a view against the live source: what the source has at a position, compared with what the view shows."""
