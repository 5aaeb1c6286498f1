// Volatility that depends on the last error and the last volatility.
data {
  int<lower=1> T;
  vector[T] y;
  real<lower=0> sigma1;
}
parameters {
  real mu;
  real<lower=0> alpha0;
  real<lower=0, upper=1> alpha1;
  real<lower=0, upper=1 - alpha1> beta1;
}
model {
  vector[T] variance;
  variance[1] = square(sigma1);
  variance[2 : T] = alpha0 + alpha1 * square(y[1 : T - 1] - mu);
  for (t in 2 : T) {
    variance[t] += beta1 * variance[t - 1];
  }
  y ~ normal(mu, sqrt(variance));
}
