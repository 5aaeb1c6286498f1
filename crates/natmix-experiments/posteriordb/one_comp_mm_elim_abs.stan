// A drug that is absorbed at a constant rate, and eliminated with saturation.
functions {
  vector change(real t, vector C, real k_a, real K_m, real V_m, real D, real V) {
    real absorbed = t > 0 ? exp(-k_a * t) * D * k_a / V : 0;
    return [absorbed - V_m / V * C[1] / (K_m + C[1])]';
  }
}
data {
  real t0;
  real<lower=0> D;
  real<lower=0> V;
  int<lower=1> N_t;
  array[N_t] real times;
  vector<lower=0>[N_t] C_hat;
}
transformed data {
  vector[1] C0 = [0]';
}
parameters {
  real<lower=0> k_a;
  real<lower=0> K_m;
  real<lower=0> V_m;
  real<lower=0> sigma;
}
model {
  array[N_t] vector[1] C = ode_bdf(change, C0, t0, times, k_a, K_m, V_m, D, V);
  k_a ~ cauchy(0, 1);
  K_m ~ cauchy(0, 1);
  V_m ~ cauchy(0, 1);
  sigma ~ cauchy(0, 1);
  C_hat ~ lognormal(log(to_vector(C[ : , 1])), sigma);
}
