"""From cells to pixels: heat maps and regions of prototypes in an image."""
