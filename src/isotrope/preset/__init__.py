"""What a preset says: its keys, their checks and sources, and the objective or loss that is built
from them.
"""
