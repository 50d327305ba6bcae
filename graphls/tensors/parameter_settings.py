"""Settings of a parameter that say how MindSpore shares it among devices: kept, and without an effect on one."""

from __future__ import annotations

from typing import Any


class DeviceSetting:
    """An attribute that gives its default until it is set."""

    def __init__(self, default: object) -> None:
        self.default = default
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, parameter: DeviceSettings | None, owner: type | None = None) -> Any:
        return self if parameter is None else parameter.device_settings.get(self.name, self.default)

    def __set__(self, parameter: DeviceSettings, value: object) -> None:
        parameter.device_settings[self.name] = value


class DeviceSettings:
    """The settings of MindSpore's parameters; `device_settings` holds those that were set."""

    __slots__ = ()

    device_settings: dict[str, Any]

    cache_enable = DeviceSetting(False)
    comm_fusion = DeviceSetting(1)
    is_param_ps = DeviceSetting(False)
    parallel_optimizer = DeviceSetting(True)
    parallel_optimizer_comm_recompute = DeviceSetting(False)
    pipeline_stage = DeviceSetting(0)
    sliced = DeviceSetting(False)
    unique = DeviceSetting(False)
