"""An experiment of our own: clicks, where rewards are 0 or 1 and a logistic model is the right one."""
