"""The GitHub Action: inputs from the environment, one command, outputs and a summary for the runner.

`action.yml` runs `python -m holdfast.action`. Whatever goes wrong becomes a warning of the job, not its end,
unless the step asks for that.
"""
