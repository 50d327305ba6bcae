"""Functions of neural networks: layers, convolution, attention, normalization, losses, images."""
