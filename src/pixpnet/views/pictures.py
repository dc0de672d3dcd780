"""Pictures of an explanation, as views know them: `pixpnet.explanation.pictures`, which notebooks use too."""

from pixpnet.explanation.pictures import GRAY as GRAY
from pixpnet.explanation.pictures import cut_out as cut_out
from pixpnet.explanation.pictures import image_pixels as image_pixels
from pixpnet.explanation.pictures import mask as mask
from pixpnet.explanation.pictures import prototype_pixels as prototype_pixels
from pixpnet.explanation.pictures import training_pixels as training_pixels
