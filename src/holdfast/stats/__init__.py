"""How much is saved, how often, how large it is, and how long its way takes.

`figures` computes, `collection` gathers what it computes from, `resumes` counts what nothing else records.
"""
