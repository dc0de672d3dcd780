"""Spatial misalignment: what changes in a prototype's score when only pixels outside of its region change."""

from pixpnet.metrics.misalignment.attacks import ATTACKED, ATTACKS, Attack, Attacked, AttackSettings
from pixpnet.metrics.misalignment.measuring import attack_images, misalignment
from pixpnet.metrics.misalignment.protection import PROTECTIONS, Protection
from pixpnet.metrics.misalignment.record import AttackedImage, AttackedPrototype, Misalignment, summarize

__all__ = [
    "ATTACKED",
    "ATTACKS",
    "PROTECTIONS",
    "Attack",
    "AttackSettings",
    "Attacked",
    "AttackedImage",
    "AttackedPrototype",
    "Misalignment",
    "Protection",
    "attack_images",
    "misalignment",
    "summarize",
]
