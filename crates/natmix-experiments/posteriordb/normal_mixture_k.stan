// K normal components; their labels can be exchanged.
data {
  int<lower=1> K;
  int<lower=0> N;
  vector[N] y;
}
parameters {
  simplex[K] theta;
  vector[K] mu;
  vector<lower=0, upper=10>[K] sigma;
}
model {
  mu ~ normal(0, 10);
  matrix[K, N] component;
  for (k in 1 : K) {
    component[k] = log(theta[k]) - log(sigma[k]) - 0.5 * square((y' - mu[k]) / sigma[k]);
  }
  for (n in 1 : N) {
    target += log_sum_exp(component[ : , n]);
  }
  target += -0.5 * N * log(2 * pi());
}
