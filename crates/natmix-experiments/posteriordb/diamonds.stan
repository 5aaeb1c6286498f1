// Linear regression with a constant in the first column, which is dropped, and centred predictors.
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=2> K;
  matrix[N, K] X;
  int prior_only;
}
transformed data {
  matrix[N, K - 1] Xc;
  for (k in 2 : K) {
    Xc[ : , k - 1] = X[ : , k] - mean(X[ : , k]);
  }
}
parameters {
  vector[K - 1] b;
  real Intercept;
  real<lower=0> sigma;
}
model {
  b ~ normal(0, 1);
  Intercept ~ student_t(3, 8, 10);
  sigma ~ student_t(3, 0, 10);
  if (!prior_only) {
    Y ~ normal_id_glm(Xc, Intercept, b, sigma);
  }
}
