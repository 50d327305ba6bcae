"""Rules and fusions for each kind of kernel that is not elementwise."""
