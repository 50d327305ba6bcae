"""Single faults, put in on purpose, to see that a comparison of models finds each of them."""

from __future__ import annotations

from tests.networks.faults import of_devices, of_models, of_windows
from tests.networks.faults.fault import Fault

FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        of_devices.operator_is_not_rounded,
        of_devices.cast_is_dropped,
        of_devices.operator_rounds_towards_zero,
        of_devices.overflow_saturates,
        of_devices.small_numbers_are_zeros,
        of_models.state_is_not_updated,
        of_models.states_are_exchanged,
        of_models.scale_changes_otherwise,
        of_models.constant_is_off_by_a_digit,
        of_models.operands_are_exchanged,
        of_models.cast_is_added,
        of_models.update_is_not_skipped,
        of_models.random_tensors_are_exchanged,
        of_windows.overflow_starts_later,
        of_windows.overflow_starts_earlier,
        of_windows.gradient_is_not_looked_at,
    )
}
