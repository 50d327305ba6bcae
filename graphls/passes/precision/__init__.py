"""Products with operands of few bits: recipes, forms and the pass that places what quantizes."""
