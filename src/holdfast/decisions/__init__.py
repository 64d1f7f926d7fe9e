"""What a person decides about a run: a review, a rollback, a fork, its deletion."""
