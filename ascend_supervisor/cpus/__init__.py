"""Which CPUs a rank runs on; all pure but for ``sysfs``."""
