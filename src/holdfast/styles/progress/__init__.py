"""How the progress of a run changes, one module for each style of workflow.

A progress is the JSON document that a checkpoint stores as `state_snapshot.progress`. Every function takes
one and returns another, and never alters what it was given.
"""
