// Two normal components with standard deviation one; their labels can be exchanged.
data {
  int<lower=0> N;
  vector[N] y;
}
parameters {
  real<lower=0, upper=1> theta;
  array[2] real mu;
}
model {
  mu ~ normal(0, 10);
  vector[N] first = log(theta) - 0.5 * square(y - mu[1]);
  vector[N] second = log1m(theta) - 0.5 * square(y - mu[2]);
  target += sum(second) + sum(log1p_exp(first - second)) - 0.5 * N * log(2 * pi());
}
