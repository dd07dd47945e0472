from __future__ import annotations

import pytest

from toyspec.tracker.compute import UnknownAcceleratorError, accelerators, find_accelerator, peak_flops

FOUND = [
    ("TPU v4", "TPU v4"),
    ("tpu-v4-8", "TPU v4"),
    ("TPU v5 lite", "TPU v5e"),
    ("v5litepod-8", "TPU v5e"),
    ("TPU v5", "TPU v5p"),
    ("TPU v5p", "TPU v5p"),
    ("TPU v6 lite", "TPU v6e"),
    ("TPU7x", "Ironwood"),
    ("NVIDIA A100-SXM4-80GB", "A100"),
    ("NVIDIA H100 80GB HBM3", "H100"),
    ("NVIDIA H100 PCIe", "H100 PCIe"),
    ("NVIDIA H100 NVL", "H100 NVL"),
    ("NVIDIA H200", "H200"),
    ("NVIDIA B200", "B200"),
    ("AMD Instinct MI300X OAM", "MI300X"),
]


@pytest.mark.parametrize(("asked", "name"), FOUND)
def test_names_of_people_and_drivers_are_found(asked: str, name: str) -> None:
    """What JAX, CUDA and people call a chip leads to its figure."""
    assert name == find_accelerator(asked).name


@pytest.mark.parametrize("name", ["TPU v4", "TPU v5e", "TPU v5p", "TPU v6e", "Ironwood"])
def test_every_tpu_has_a_figure(name: str) -> None:
    """Each generation of TPU that can be rented has a figure."""
    assert name == find_accelerator(name).name


def test_the_documented_example_holds() -> None:
    """Eight TPU v4 chips can do 2.2e15 operations per second."""
    assert 2.2e15 == 8 * peak_flops("TPU v4")


def test_every_figure_has_a_source_and_is_found_by_its_own_name() -> None:
    """Each accelerator says where its figure is stated, and its own name means it."""
    table = accelerators()
    assert [accelerator.name for accelerator in table] == [find_accelerator(entry.name).name for entry in table]
    assert all(accelerator.source.startswith("https://") and accelerator.bf16 > 1e14 for accelerator in table)


@pytest.mark.parametrize("name", ["", "NVIDIA", "GeForce RTX 4090", "cpu"])
def test_unknown_names_are_refused(name: str) -> None:
    """A chip without a figure raises rather than getting that of another."""
    with pytest.raises(UnknownAcceleratorError, match="no peak FLOP/s is known for"):
        peak_flops(name)


def test_a_near_name_is_suggested() -> None:
    """The message of an unknown name names the closest known one."""
    with pytest.raises(LookupError, match="did you mean H200"):
        peak_flops("H20")
