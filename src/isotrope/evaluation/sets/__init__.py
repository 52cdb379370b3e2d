"""What is judged on: SentEval's sets, domains, and the user's own pairs and texts."""
