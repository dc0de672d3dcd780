"""The species table is a code: laws that keep any single part from deciding."""

from itertools import combinations

import pytest

from pixpnet.data.birds import PARTS, SPECIES, VARIANTS, Species


def test_there_are_at_least_ten_species_and_eight_annotated_parts():
    assert len(SPECIES) >= 10
    assert len(PARTS) >= 8
    assert set(VARIANTS) <= set(PARTS)


def test_names_are_unique_and_in_alphabetical_order_so_that_folders_keep_the_labels():
    names = [species.name for species in SPECIES]
    assert len(set(names)) == len(names)
    assert sorted(names) == names


@pytest.mark.parametrize("part", VARIANTS)
def test_every_variant_is_shared_by_exactly_four_species_in_two_genera(part):
    for variant in VARIANTS[part]:
        owners = [species for species in SPECIES if species.variant(part) == variant]
        assert len(owners) == 4
        assert len({species.genus for species in owners}) == 2


def test_species_of_one_genus_differ_in_exactly_two_parts_and_others_in_at_least_six():
    for first, second in combinations(SPECIES, 2):
        distance = len(first.differs_from(second))
        assert distance == 2 if first.genus == second.genus else distance >= 6


def test_every_species_has_neighbors_one_or_two_parts_away():
    for species in SPECIES:
        nearest = min(len(species.differs_from(other)) for other in SPECIES if other is not species)
        assert 1 <= nearest <= 2


def test_the_two_parts_that_separate_a_genus_lie_apart_so_that_one_leaf_cannot_hide_both():
    head = {"beak", "crown", "eye", "throat"}
    for first, second in combinations(SPECIES, 2):
        if first.genus == second.genus:
            assert len(head & set(first.differs_from(second))) == 1


def test_hiding_any_one_part_leaves_all_species_distinct():
    for hidden in VARIANTS:
        rest = {tuple(species.variant(part) for part in VARIANTS if part != hidden) for species in SPECIES}
        assert len(rest) == len(SPECIES)


def test_whoever_reads_one_part_names_a_quarter_of_the_species_and_two_parts_at_most_seven_twelfths():
    for part in VARIANTS:
        assert len({species.variant(part) for species in SPECIES}) == len(SPECIES) // 4
    for one, two in combinations(VARIANTS, 2):
        readings = {(species.variant(one), species.variant(two)) for species in SPECIES}
        assert 6 <= len(readings) <= 7


def test_an_unknown_variant_is_refused_by_name():
    with pytest.raises(ValueError, match="tail 'long'"):
        Species("odd finch", ("cone", "cap", "ring", "plain", "plain", "plain", "long", "bare"))


def test_a_missing_variant_is_refused():
    with pytest.raises(ValueError, match="one for each of"):
        Species("odd finch", ("cone",))


def test_asking_for_the_variant_of_a_part_without_variants_says_which_have():
    with pytest.raises(KeyError, match="beak"):
        SPECIES[0].variant("cheek")
