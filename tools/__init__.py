"""Programs that make pages of the documentation; `make docs` runs them."""
