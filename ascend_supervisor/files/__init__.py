"""Files and streams of all kinds, also slow, planted or full ones; knows no NPU."""
