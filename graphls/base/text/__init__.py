"""Text for people: names that stay in their place, tables, and HTML that stands alone."""
