"""What a person sees while work goes on: plain lines and one progress bar."""
