"""`mindspore.numpy`, over the functions of `graphls.ops` and NumPy."""
