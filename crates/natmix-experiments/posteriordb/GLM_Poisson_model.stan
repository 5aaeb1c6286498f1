// Poisson regression on a cubic polynomial.
data {
  int<lower=0> n;
  vector[n] year;
  array[n] int<lower=0> C;
}
transformed data {
  matrix[n, 3] powers;
  powers[ : , 1] = year;
  powers[ : , 2] = square(year);
  powers[ : , 3] = year .* square(year);
}
parameters {
  real<lower=-20, upper=20> alpha;
  real<lower=-10, upper=10> beta1;
  real<lower=-10, upper=10> beta2;
  real<lower=-10, upper=10> beta3;
}
model {
  C ~ poisson_log_glm(powers, alpha, [beta1, beta2, beta3]');
}
