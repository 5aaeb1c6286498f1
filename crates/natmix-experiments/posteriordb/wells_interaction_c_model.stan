// Logistic regression of the change of a well on distance and arsenic, centred, which interact.
data {
  int<lower=0> N;
  vector[N] dist;
  vector[N] arsenic;
  array[N] int<lower=0, upper=1> switched;
}
transformed data {
  matrix[N, 3] predictors;
  predictors[ : , 1] = (dist - mean(dist)) / 100;
  predictors[ : , 2] = arsenic - mean(arsenic);
  predictors[ : , 3] = predictors[ : , 1] .* predictors[ : , 2];
}
parameters {
  real alpha;
  vector[3] beta;
}
model {
  switched ~ bernoulli_logit_glm(predictors, alpha, beta);
}
