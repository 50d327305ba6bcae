"""Low-rank adapters (LoRA) for any network: trained beside its frozen weights, saved apart, or merged into them."""

from graphls.interop.adapters.files import load_adapters, save_adapters
from graphls.interop.adapters.lora import lora, merge

__all__ = ["load_adapters", "lora", "merge", "save_adapters"]
