"""What people use today, written as its users write it."""
