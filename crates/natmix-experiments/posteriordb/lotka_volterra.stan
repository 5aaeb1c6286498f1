// Predators and prey.
functions {
  vector change(real time, vector z, array[] real theta) {
    real prey = z[1];
    real predators = z[2];
    return [(theta[1] - theta[2] * predators) * prey, (-theta[3] + theta[4] * prey) * predators]';
  }
}
data {
  int<lower=0> N;
  array[N] real ts;
  vector<lower=0>[2] y_init;
  matrix<lower=0>[N, 2] y;
}
parameters {
  array[4] real<lower=0> theta;
  vector<lower=0>[2] z_init;
  array[2] real<lower=0> sigma;
}
model {
  array[N] vector[2] z = ode_rk45_tol(change, z_init, 0, ts, 1e-5, 1e-3, 500, theta);
  theta[{1, 3}] ~ normal(1, 0.5);
  theta[{2, 4}] ~ normal(0.05, 0.05);
  sigma ~ lognormal(-1, 1);
  z_init ~ lognormal(log(10), 1);
  for (k in 1 : 2) {
    y_init[k] ~ lognormal(log(z_init[k]), sigma[k]);
    y[ : , k] ~ lognormal(log(z[ : , k]), sigma[k]);
  }
}
