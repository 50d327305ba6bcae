"""The engine of oneDNN: kernels made for training, in layouts of their own."""
