"""All talk with GitHub: the calls as values, the client, and what is wrapped around it."""
