"""What several components share: the build context, the encoder's features, and processes that
compute together.
"""
