"""What ranks do together behind an update, in one piece with it."""
