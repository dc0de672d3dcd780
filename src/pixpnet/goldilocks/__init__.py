"""Many cuts of many backbones: where parts are small enough to mean something and large enough to decide."""
