"""Alerts: what happens to a job is told to people and programs outside, at no cost to the job."""
