// Logistic regression of a vote on income.
data {
  int<lower=0> N;
  vector[N] income;
  array[N] int<lower=0, upper=1> vote;
}
transformed data {
  matrix[N, 1] predictor = to_matrix(income);
}
parameters {
  real alpha;
  real beta;
}
model {
  vote ~ bernoulli_logit_glm(predictor, alpha, [beta]');
}
