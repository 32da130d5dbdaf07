# What R says of the numbers of inputs.json and scores.csv: the tests of tests/comparison compare with it.
#
#     Rscript references.R      # in this folder; writes references_of_r.csv
#
# Needs the Debian packages r-base-core and r-cran-proc.
suppressPackageStartupMessages(library(pROC))

numbers <- function(name) {
  text <- paste(readLines("inputs.json"), collapse = "")
  list <- sub(paste0(".*\"", name, "\": *(\\[[^]]*\\]).*"), "\\1", text)
  as.numeric(strsplit(gsub("[][ ]", "", list), ",")[[1]])
}
table_of <- function(name, columns) {
  text <- paste(readLines("inputs.json"), collapse = "")
  list <- sub(paste0(".*\"", name, "\": *\\[( *\\[.*\\] *)\\].*"), "\\1", text)
  matrix(as.numeric(strsplit(gsub("[][ ]", "", list), ",")[[1]]), ncol = columns, byrow = TRUE)
}
found <- data.frame(name = character(), value = numeric())
keep <- function(name, value) found[nrow(found) + 1, ] <<- list(name, as.numeric(value))

for (set in c("smooth", "tied", "rare")) {
  rows <- subset(read.csv("scores.csv"), set == get("set", envir = globalenv()))
  first <- roc(rows$label, rows$first, levels = c(0, 1), direction = "<")
  second <- roc(rows$label, rows$second, levels = c(0, 1), direction = "<")
  test <- roc.test(second, first, method = "delong", paired = TRUE)
  keep(paste0("delong ", set, " first"), auc(first))
  keep(paste0("delong ", set, " second"), auc(second))
  keep(paste0("delong ", set, " variance"), var(first) + var(second) - 2 * cov(first, second))
  keep(paste0("delong ", set, " statistic"), test$statistic)
  keep(paste0("delong ", set, " p"), test$p.value)
}

for (name in c("ten_folds", "five_folds", "many_folds")) {
  test <- wilcox.test(numbers(name), exact = TRUE)
  keep(paste("wilcoxon", name, "p"), test$p.value)
  test <- t.test(numbers(name))
  keep(paste("naive", name, "statistic"), test$statistic)
  keep(paste("naive", name, "p"), test$p.value)
}

# the formula of Nadeau and Bengio by R's own mean, variance and distribution
differences <- numbers("ten_folds")
statistic <- mean(differences) / sqrt((1 / 10 + 1 / 9) * var(differences))
keep("corrected ten_folds statistic", statistic)
keep("corrected ten_folds p", 2 * pt(-abs(statistic), 9))

first <- numbers("right_first")
second <- numbers("right_second")
keep("mcnemar p", binom.test(sum(second > first), sum(second != first))$p.value)

adjusted <- p.adjust(numbers("p_values"), "holm")
for (place in seq_along(adjusted)) keep(paste("holm", place - 1), adjusted[place])

scores <- table_of("scores", 4)
test <- friedman.test(scores)
keep("friedman statistic", test$statistic)
keep("friedman p", test$p.value)
ranks <- t(apply(-scores, 1, rank))
by_rank <- summary(aov(rank ~ method + set, data.frame(
  rank = as.vector(ranks), method = factor(rep(1:4, each = 8)), set = factor(rep(1:8, 4))
)))[[1]]
keep("iman davenport statistic", by_rank[1, "F value"])
keep("iman davenport p", by_rank[1, "Pr(>F)"])
mean_ranks <- colMeans(ranks)
error <- sqrt(4 * 5 / (6 * 8))
keep("critical difference", qtukey(0.95, 4, Inf) / sqrt(2) * error)
for (one in 1:3) for (two in (one + 1):4) {
  apart <- abs(mean_ranks[one] - mean_ranks[two]) / error * sqrt(2)
  keep(paste("nemenyi", one - 1, two - 1), ptukey(apart, 4, Inf, lower.tail = FALSE))
}

header <- sprintf(
  "# Rscript references.R; %s, pROC %s", R.version.string, as.character(packageVersion("pROC"))
)
writeLines(c(header, "name,value", sprintf("%s,%.17g", found$name, found$value)), "references_of_r.csv")
