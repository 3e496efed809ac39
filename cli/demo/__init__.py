"""`lithify demo`: changes in, a compactor killed in mid-job, another that takes over, and what reading costs."""
