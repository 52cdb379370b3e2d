"""Second encoders: they read some of the passes in the student's place, are saved with the run, and then left out."""
