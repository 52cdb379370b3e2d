"""A small fast model that follows a large one, and what that costs."""
