"""What is stored: checkpoints, their ids, triggers, paths, the index and the receipt."""
