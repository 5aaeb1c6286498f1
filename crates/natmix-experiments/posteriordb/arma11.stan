// Autoregression and moving average, each of order one.
data {
  int<lower=1> T;
  vector[T] y;
}
parameters {
  real mu;
  real phi;
  real theta;
  real<lower=0> sigma;
}
model {
  vector[T] error;
  error[1] = y[1] - mu - phi * mu;
  error[2 : T] = y[2 : T] - mu - phi * y[1 : T - 1];
  for (t in 2 : T) {
    error[t] -= theta * error[t - 1];
  }
  mu ~ normal(0, 10);
  phi ~ normal(0, 2);
  theta ~ normal(0, 2);
  sigma ~ cauchy(0, 2.5);
  error ~ normal(0, sigma);
}
