"""What is measured; the README beside this says how."""
