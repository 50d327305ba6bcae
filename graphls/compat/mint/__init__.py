"""`mindspore.mint` and `mindspore.experimental.optim`, in the manner of PyTorch."""
