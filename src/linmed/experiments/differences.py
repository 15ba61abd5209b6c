"""What the authors' public code does differently from the text in several experiments."""

NO_HALF_STEP = "LinMED's half-step on B_t is switched off."
SCALES = "LinTS-Freq draws with the squared radius β instead of √β, LinTS-Bayes with scale 1 instead of σ."
ARM_ZERO = "LinIMED-3's index function returns nothing, so arm 0 is played after the first round."
SIGMA = "“σ² = 2σ*²” is σ = 2σ*, “σ² = 0.1σ*²” is σ = 0.1σ*."
FIRST_ROUND = "the first round's rule of each policy (uniform, or LinMED without α_emp)"
DESIGN = "the design's centred coordinates and off-by-one list"
