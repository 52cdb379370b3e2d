"""What a preset says: its keys, their checks and sources, and the objective that is built from
them.
"""
