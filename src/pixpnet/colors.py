"""Colours that people with any colour vision can tell apart (Okabe and Ito), for figures, pages and notebooks."""

INK = "#22252b"
MUTED = "#6b7280"
GRID = "#e5e7eb"
BLUE = "#0072B2"
ORANGE = "#E69F00"
VERMILION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
SKY = "#56B4E9"
YELLOW = "#F0E442"
# Dark enough for words on white.
GREEN_TEXT = "#00694c"
VERMILION_TEXT = "#a84300"

# For regions that are told apart by colour and number; never yellow, which is lost on light pictures.
REGIONS = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY)
# For rows, curves and families in one plot.
SERIES = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, INK, MUTED)
# The number of a region is printed on its colour, in what reads well there (contrast above 4.5).
ON_REGIONS = ("#ffffff", "#000000", "#000000", "#000000", "#000000", "#000000")
