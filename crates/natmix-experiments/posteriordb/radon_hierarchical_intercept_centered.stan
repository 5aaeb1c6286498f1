// Radon in the houses of counties with intercepts of their own, in the centred form.
data {
  int<lower=0> N;
  int<lower=0> J;
  vector[N] floor_measure;
  vector[N] log_radon;
  vector[N] log_uppm;
  array[N] int<lower=1, upper=J> county_idx;
}
transformed data {
  matrix[N, 2] predictors;
  predictors[ : , 1] = log_uppm;
  predictors[ : , 2] = floor_measure;
}
parameters {
  vector[J] alpha;
  vector[2] beta;
  real mu_alpha;
  real<lower=0> sigma_alpha;
  real<lower=0> sigma_y;
}
model {
  sigma_alpha ~ normal(0, 1);
  sigma_y ~ normal(0, 1);
  mu_alpha ~ normal(0, 10);
  beta ~ normal(0, 10);
  alpha ~ normal(mu_alpha, sigma_alpha);
  log_radon ~ normal_id_glm(predictors, alpha[county_idx], beta, sigma_y);
}
