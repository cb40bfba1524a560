# Fit the Markov GLMM with lme4: Rscript glmer.R ratings.csv estimates.csv nAGQ [tight]
# ratings.csv: batch, item, rating, lag1, first. Prints the seconds of the fit alone.
suppressMessages(library(lme4))
arguments <- commandArgs(trailingOnly = TRUE)
ratings <- read.csv(arguments[1])
ratings$item <- factor(ratings$item)
ratings$batch <- factor(ratings$batch)
formula <- rating ~ 0 + item + lag1 + first + (1 | batch)
# "tight" is for agreement: the default tolerances leave four digits.
control <- if (length(arguments) > 3 && arguments[4] == "tight") {
  glmerControl(optimizer = "bobyqa", calc.derivs = FALSE, tolPwrss = 1e-13,
    optCtrl = list(rhobeg = 2e-2, rhoend = 1e-9, maxfun = 1000000))
} else {
  glmerControl(optimizer = "nloptwrap", calc.derivs = FALSE)
}
seconds <- system.time(
  fit <- suppressWarnings(glmer(
    formula, ratings, family = binomial, nAGQ = as.integer(arguments[3]),
    control = control)
  ))
estimates <- c(fixef(fit), batch_sd = as.numeric(attr(VarCorr(fit)$batch, "stddev")))
write.csv(data.frame(name = names(estimates), value = estimates), arguments[2], row.names = FALSE)
cat(sprintf("%.3f %.3f %s\n", seconds["elapsed"], seconds["user.self"], packageVersion("lme4")))
