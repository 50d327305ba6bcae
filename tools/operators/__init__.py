"""What graphls offers of MindSpore, as a page: every operator and cell with what it takes, and the names that lack."""
