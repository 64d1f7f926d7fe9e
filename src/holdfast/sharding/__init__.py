"""Runs divided among several repositories. Loaded only where HOLDFAST_SHARDS is set.

Where a run is, is told by what the repositories hold; where a new one goes, by rendezvous hashing. A save
asks nobody: it goes into the spool of the shard that the hash names, and the drainer of that shard hands on
what turns out to be stored elsewhere.
"""
