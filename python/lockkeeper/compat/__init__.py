"""Locks with the interfaces of other libraries."""
