"""Ten small networks with their training steps, as whole as large ones: what every device and every dtype must take."""
