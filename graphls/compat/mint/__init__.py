"""`mindspore.mint` and `mindspore.experimental.optim`, with the names and arguments of PyTorch."""
