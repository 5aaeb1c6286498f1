// Two states; in each both series have exponential distributions.
data {
  int<lower=1> N;
  int<lower=2, upper=2> K;
  row_vector<lower=0>[N] u;
  row_vector<lower=0>[N] v;
  array[K] vector<lower=0>[K] alpha;
}
parameters {
  simplex[K] theta1;
  simplex[K] theta2;
  positive_ordered[K] phi;
  positive_ordered[K] lambda;
}
model {
  matrix[K, K] transition = [theta1', theta2'];
  matrix[K, N] emission;
  for (k in 1 : K) {
    emission[k] = log(phi[k]) + log(lambda[k]) - phi[k] * u - lambda[k] * v;
  }
  theta1 ~ dirichlet(alpha[1]);
  theta2 ~ dirichlet(alpha[2]);
  phi ~ normal([0, 3], 1);
  lambda ~ normal([0, 3], 1);
  // Both first states have weight one.
  target += hmm_marginal(emission, transition, [0.5, 0.5]') + log2();
}
