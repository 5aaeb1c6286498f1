// Counts with a rate per group: a truncated prior, a bounded probability, an included file, and random predictions.
functions {
#include counts_functions.stan
}
data {
  int<lower=1> N;
  int<lower=1> G;
  array[N] int<lower=1, upper=G> group;
  array[N] int<lower=0> y;
}
transformed data {
  real total = sum(to_vector(y));
}
parameters {
  vector<lower=0>[G] rate;
  real<lower=0, upper=1> p;
  real<lower=-1> shift;
}
model {
  rate ~ gamma(2, 0.5);
  p ~ beta(2, 3);
  shift ~ normal(0, 2);
  for (n in 1 : N) {
    target += count_lpmf(y[n] | rate[group[n]], p);
  }
}
generated quantities {
  array[N] int y_rep;
  vector[N] log_lik;
  for (n in 1 : N) {
    y_rep[n] = poisson_rng(bernoulli_rng(p) ? rate[group[n]] + 1 : 0.5);
    log_lik[n] = count_lpmf(y[n] | rate[group[n]], p);
  }
}
