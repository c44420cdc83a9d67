"""The program around the story: it answers without a job, or makes the parts and runs them."""
