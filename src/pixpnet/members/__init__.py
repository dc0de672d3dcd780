"""The members of the family, one file each; `pixpnet.family` lists them."""
