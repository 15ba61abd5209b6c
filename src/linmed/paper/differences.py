"""What the authors' public code does differently from the text in several experiments."""

NO_HALF_STEP = "LinMED's half-step on B_t is switched off."
SCALES = "LinTS-Freq draws with the squared radius β instead of √β, LinTS-Bayes with scale 1 instead of σ."
ARM_ZERO = "LinIMED-3's index function returns nothing, so arm 0 is played after the first round."
SIGMA = "“σ² = 2σ*²” is σ = 2σ*, “σ² = 0.1σ*²” is σ = 0.1σ*."
EVEN_START = "OFUL, LinTS and LinIMED draw the first arm evenly."
LINMED_START = "LinMED's first round is α_opt·π + (1 − α_opt)/K: α_emp goes to all arms alike."
SPANNER_START = "SpannerIGW's first round is drawn from its design."
DESIGN = (
    "Designs are made in the principal axes of the centred arms, without the axes whose variance is at most "
    "1e-6, and their weights are counted from a list that is off by one."
)
SPANNER_RATES = (
    "SpannerIGW-AT has the η of round t + 1 in round t, but shrinks the arms of its design by that of round "
    "t; λ is sought in [0.4, 1.2], which changes nothing: it lies in [1/2, 1]."
)
