"""Fields of this family with the numbers that forks gave them: of NVCaffe's and Intel's lists, and others."""

from schema_forks import numbered

UNLISTED = numbered("""
LayerParameter: quant_param=149
""")
