"""What the doors share: exit codes, rendering, JSON documents."""
