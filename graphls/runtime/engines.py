"""The built-in engines; importing this module registers each by its name."""

from graphls.ir.engines import register_engine
from graphls.runtime.host.engine import Host
from graphls.runtime.numpy.engine import Numpy
from graphls.runtime.onnxruntime.engine import OnnxRuntime
from graphls.runtime.openvino.engine import Openvino
from graphls.runtime.ranks.engine import Ranks

for engine in (OnnxRuntime(), Openvino(), Numpy(), Host(), Ranks()):
    register_engine(engine)
