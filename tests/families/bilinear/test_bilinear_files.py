"""Files of crn."""

from prototxt.upgrading import expect


def test_normalize_of_crn():
    """In a net with its other types it learns no scale; elsewhere it is SSD's."""
    text = 'layer { type: "Netvlad" } layer { name: "n" type: "Normalize" top: "n" }'
    expect(text, text.replace('"Normalize" top: "n"', '"Intranorm" top: "n" intranorm_param { cluster_num: 1 }'))
    for same in ('layer { type: "Normalize" }', text.replace('"Normalize"', '"Normalize" norm_param { }')):
        expect(same, same)
