// Two states; in each both series are normal with a known standard deviation.
data {
  int<lower=1> N;
  int<lower=2, upper=2> K;
  row_vector[N] u;
  row_vector[N] v;
  array[K] vector<lower=0>[K] alpha;
  real<lower=0> tau;
  real<lower=0> rho;
}
parameters {
  simplex[K] theta1;
  simplex[K] theta2;
  ordered[K] phi;
  ordered[K] lambda;
}
model {
  matrix[K, K] transition = [theta1', theta2'];
  matrix[K, N] emission;
  for (k in 1 : K) {
    emission[k] = -0.5 * (square((u - phi[k]) / tau) + square((v - lambda[k]) / rho));
  }
  theta1 ~ dirichlet(alpha[1]);
  theta2 ~ dirichlet(alpha[2]);
  phi ~ normal([0, 3], 1);
  lambda ~ normal([0, 3], 1);
  target += -N * (log(2 * pi()) + log(tau) + log(rho));
  // Both first states have weight one.
  target += hmm_marginal(emission, transition, [0.5, 0.5]') + log2();
}
