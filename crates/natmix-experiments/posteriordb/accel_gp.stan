// Mean and logarithm of the standard deviation are Gaussian processes, on bases in the data.
functions {
  vector weights(real s, real l, vector z, vector lambda) {
    return s * pow(2 * pi(), 0.25) * sqrt(l) * exp(-0.25 * square(l * lambda)) .* z;
  }
}
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> NBgp_1;
  matrix[N, NBgp_1] Xgp_1;
  array[NBgp_1] vector[1] slambda_1;
  int<lower=1> NBgp_sigma_1;
  matrix[N, NBgp_sigma_1] Xgp_sigma_1;
  array[NBgp_sigma_1] vector[1] slambda_sigma_1;
  int prior_only;
}
transformed data {
  vector[NBgp_1] lambda = to_vector(slambda_1[ : , 1]);
  vector[NBgp_sigma_1] lambda_sigma = to_vector(slambda_sigma_1[ : , 1]);
}
parameters {
  real Intercept;
  real<lower=0> sdgp_1;
  real<lower=0> lscale_1;
  vector[NBgp_1] zgp_1;
  real Intercept_sigma;
  real<lower=0> sdgp_sigma_1;
  real<lower=0> lscale_sigma_1;
  vector[NBgp_sigma_1] zgp_sigma_1;
}
model {
  Intercept ~ student_t(3, -13, 36);
  sdgp_1 ~ student_t(3, 0, 36);
  zgp_1 ~ std_normal();
  lscale_1 ~ inv_gamma(1.124909, 0.0177);
  Intercept_sigma ~ student_t(3, 0, 10);
  sdgp_sigma_1 ~ student_t(3, 0, 36);
  zgp_sigma_1 ~ std_normal();
  lscale_sigma_1 ~ inv_gamma(1.124909, 0.0177);
  if (!prior_only) {
    vector[N] mu = Intercept + Xgp_1 * weights(sdgp_1, lscale_1, zgp_1, lambda);
    vector[N] log_sd = Intercept_sigma + Xgp_sigma_1 * weights(sdgp_sigma_1, lscale_sigma_1, zgp_sigma_1, lambda_sigma);
    Y ~ normal(mu, exp(log_sd));
  }
}
