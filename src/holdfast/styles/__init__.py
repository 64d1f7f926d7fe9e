"""The workflow styles, one module each: how the progress of a run changes, and where the run goes on."""
