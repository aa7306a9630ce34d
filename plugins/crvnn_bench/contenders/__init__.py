"""Who is compared: installed encoders, variants of them, and the paper's dense formulation; all with one head."""
