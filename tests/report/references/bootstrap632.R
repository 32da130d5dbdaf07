# What ipred of R says of .632+ estimates: tests/report/test_bootstrap632.py compares with it.
#
#     Rscript bootstrap632.R      # in this folder; writes the other files but bootstrap632_data.csv
#
# Needs the Debian packages r-base-core and r-cran-ipred. Data: 40 cases of two classes, in bootstrap632_data.csv. The
# classifiers are the nearest of the class means, and the nearest neighbour, whose apparent error is 0.
suppressPackageStartupMessages(library(ipred))

cases <- read.csv("bootstrap632_data.csv")
cases$label <- factor(cases$label)

to_means <- function(formula, data, ...) {
  means <- sapply(split(data[, c("a", "b")], data$label), colMeans)
  function(newdata) {
    apart <- sapply(1:2, function(k) (newdata$a - means[1, k])^2 + (newdata$b - means[2, k])^2)
    factor(ifelse(apart[, 2] < apart[, 1], 1, 0), levels = c(0, 1))
  }
}
to_neighbour <- function(formula, data, ...) {
  function(newdata) {
    apart <- outer(newdata$a, data$a, "-")^2 + outer(newdata$b, data$b, "-")^2
    factor(data$label[apply(apart, 1, which.min)], levels = c(0, 1))
  }
}
noise <- cases
set.seed(3)
noise$label <- sample(noise$label)

set.seed(1)
n <- nrow(cases)
samples <- replicate(20, sample(n, n, replace = TRUE), simplify = FALSE)
write.csv(t(sapply(samples, function(each) each - 1)), "bootstrap632_samples.csv", row.names = FALSE)

found <- data.frame(name = character(), value = numeric())
keep <- function(name, value) found[nrow(found) + 1, ] <<- list(name, as.numeric(value))
estimate <- function(data, model, ...) {
  errorest(label ~ a + b, data = data, model = model, estimator = "632plus", ...)$error
}
given <- control.errorest(nboot = 20, list.tindx = samples)
keep("means", estimate(cases, to_means, est.para = given))
keep("neighbour", estimate(cases, to_neighbour, est.para = given))
keep("neighbour of noise", estimate(noise, to_neighbour, est.para = given))
set.seed(2)
many <- replicate(200, estimate(cases, to_means, est.para = control.errorest(nboot = 50)))
keep("means, 50 samples, mean of 200", mean(many))
keep("means, 50 samples, sd of 200", sd(many))
write.csv(data.frame(label = noise$label), "bootstrap632_noise.csv", row.names = FALSE)
write.csv(found, "bootstrap632_of_r.csv", row.names = FALSE)
