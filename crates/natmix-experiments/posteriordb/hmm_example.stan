// Two states; in each the observations are normal with standard deviation one.
data {
  int<lower=1> N;
  int<lower=2, upper=2> K;
  row_vector[N] y;
}
parameters {
  simplex[K] theta1;
  simplex[K] theta2;
  positive_ordered[K] mu;
}
model {
  matrix[K, K] transition = [theta1', theta2'];
  matrix[K, N] emission;
  for (k in 1 : K) {
    emission[k] = -0.5 * square(y - mu[k]);
  }
  mu ~ normal([3, 10], 1);
  target += -0.5 * N * log(2 * pi());
  // Both first states have weight one.
  target += hmm_marginal(emission, transition, [0.5, 0.5]') + log2();
}
