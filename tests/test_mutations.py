"""The faults of `python tests/mutations.py` can be made: their texts are where it looks for them."""

from tests.mutations import find, read_faults


def test_every_fault_has_its_place():
    faults = [find(fault) for fault in read_faults()]
    assert len(faults) > 140
    assert len({fault.name for fault in faults}) == len({fault.switch or fault.name for fault in faults})
