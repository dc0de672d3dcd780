"""How long and how fast to learn on small budgets: what presets of all members begin with."""

from dataclasses import replace

from pixpnet.settings import Optimization

# For a laptop and a few hundred images, with a backbone that was trained before. Small batches make many steps of few
# images; the backbone learns slowly, so that it does not learn the images by heart.
LAPTOP = Optimization(epochs=12, warm_up_epochs=2, batch_size=32, views=3, lr_rise=1.0)

# For the small backbone and thousands of small pictures. The embeddings of a random backbone all point the same way, so
# prototypes have nothing to tell apart; a few epochs of plain classification give them something.
SCRATCH = Optimization(
    epochs=11, pretraining_epochs=3, warm_up_epochs=0, lr_backbone=3e-3, weight_decay=5e-4, lr_rise=1.0
)

# The same for a demo that nobody waits for: small batches make more steps of the same images, and with several cells of
# each channel at a time pretraining gets going three times as fast (docs/decisions/small-budgets.md).
BIRDS = replace(SCRATCH, epochs=8, pretraining_epochs=2, pretraining_cells=8, batch_size=32)

# For a backbone with good weights that stays as it is: its features are computed once for a few views of each image and
# kept, so that an epoch takes seconds.
FROZEN = Optimization(epochs=16, warm_up_epochs=0, batch_size=32, views=4, lr_rise=1.0, frozen="all")

# The same, and the last stage before the cut learns too, on kept features of what lies before it.
TAIL = replace(FROZEN, epochs=12, warm_up_epochs=2, frozen="all_but_last", frozen_statistics=True)
